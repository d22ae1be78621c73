/*
 * The fetcher: one background worker for all databases, with the manager in its private memory.
 *
 * It turns the states of slots and mailboxes into the manager's events and carries out the resulting commands. It
 * takes no lock on relations: a scan is protected by its backend's lock, and the slot is acknowledged as free only
 * after all pages kept for the scan were released. After an error the fetcher ends itself. Then pins are released,
 * the epoch advances, backends continue alone, and the postmaster starts another fetcher a second later.
 */
#include "coscan.h"

#include <signal.h>
#include <time.h>

#include "access/xact.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procsignal.h"
#include "storage/sinval.h"
#include "tcop/tcopprot.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

/* The interval of checks for processes that wait for a page to be unpinned, while pages are pinned. */
#define YIELD_INTERVAL_MS 100
#define LOADS_IN_FLIGHT 2

/* A slot as the fetcher knows it; generation 0: unknown. */
typedef struct Known
{
	uint32		generation;
} Known;

static CoscanHost *host;
static Known *known;
static uint64 my_epoch;
static uint32 policy_in_force = COSCAN_NO_POLICY;

/* Nanoseconds since the fetcher began. */
static uint64
now_ns(void)
{
	static uint64 origin = 0;
	struct timespec now;
	uint64		ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = (uint64) now.tv_sec * 1000000000 + now.tv_nsec;
	if (origin == 0)
		origin = ns;
	return ns - origin;
}

/* Calls the manager, counts the call, and ends the fetcher if it panicked. */
#define DECIDE(function, ...) \
	do { \
		uint64		begin_ = now_ns(); \
		int			result_ = function(host, begin_, ##__VA_ARGS__); \
		coscan_count(COUNT_DECISIONS, 1); \
		coscan_count(COUNT_DECISION_NS, now_ns() - begin_); \
		if (result_ == COSCAN_PANICKED) \
			panicked(); \
	} while (0)

static void
panicked(void)
{
	ereport(FATAL,
			(errcode(ERRCODE_INTERNAL_ERROR),
			 errmsg("the coscan manager panicked"),
			 errdetail("The panic's message stands above in the server log. Scans go on by themselves; the fetcher is started anew.")));
}

/* Runs at every end of the fetcher: releases all pins first, and then announces the end. */
static void
end_service(int code, Datum arg)
{
	coscan_pages_evict_all();
	pg_atomic_fetch_add_u64(&coscan->epoch, 1);
	coscan->fetcher_pid = 0;
	for (int i = 0; i < coscan->nslots; i++)
		ConditionVariableBroadcast(&coscan->slots[i].wakeup);
}

static void
deliver(const CoscanCommand *command)
{
	CoscanSlot *slot = &coscan->slots[command->slot];
	static const CoscanCounter counters[] = {COUNT_CHUNKS_READ, COUNT_CHUNKS_CACHED, COUNT_CHUNKS_SHARED};

	pg_atomic_fetch_add_u32(&slot->delivered, 1);
	pg_atomic_fetch_add_u32(&slot->from[command->source], 1);
	coscan_count(counters[command->source], 1);
	pg_atomic_write_u64(&slot->mailboxes[command->mailbox],
						MAILBOX_WORD(known[command->slot].generation, MAILBOX_DELIVERED, command->source,
								  command->chunk));
	pg_memory_barrier();
	ConditionVariableBroadcast(&slot->wakeup);
}

static void
set_flag(pg_atomic_uint32 *flag, CoscanSlot *slot)
{
	pg_memory_barrier();
	pg_atomic_write_u32(flag, 1);
	pg_memory_barrier();
	ConditionVariableBroadcast(&slot->wakeup);
}

static void
carry_out(const CoscanCommand *command)
{
	CoscanSlot *slot = &coscan->slots[command->slot];

	switch ((CoscanCommandKind) command->kind)
	{
		case COSCAN_OPEN:
			{
				RelFileNode file = {command->key.tablespace, command->key.database, command->key.relation};

				coscan_pages_open(command->table, file);
				break;
			}
		case COSCAN_CLOSE:
			coscan_pages_close(command->table);
			break;
		case COSCAN_LOAD:
			coscan_count(COUNT_LOADS, 1);
			coscan_pages_load(command->load, command->table, command->chunk, command->frame);
			break;
		case COSCAN_EVICT:
			coscan_count(COUNT_EVICTIONS, 1);
			coscan_pages_evict(command->frame);
			break;
		case COSCAN_DELIVER:
			deliver(command);
			coscan_pages_delivered(command->frame);
			break;
		case COSCAN_FINISH:
			set_flag(&slot->finished, slot);
			break;
		case COSCAN_FAIL:
			set_flag(&slot->failed, slot);
			break;
		case COSCAN_REVOKED:
			coscan_count(COUNT_REVOCATIONS, 1);
			break;
	}
}

static void
carry_out_all(void)
{
	for (;;)
	{
		CoscanCommand command;
		int			result = coscan_host_next_command(host, &command);

		if (result == COSCAN_PANICKED)
			panicked();
		if (result != COSCAN_SOME)
			break;
		carry_out(&command);
	}
}

static void
register_scan(int at, CoscanSlot *slot)
{
	CoscanRelKey key = {slot->file.spcNode, slot->file.dbNode, slot->file.relNode};

	known[at].generation = pg_atomic_read_u32(&slot->generation);
	pg_atomic_fetch_add_u32(&coscan->registered, 1);
	coscan_pages_announce(&slot->file, slot->permanent, slot->nblocks);
	DECIDE(coscan_host_register, at, slot->policy, key, slot->chunks, slot->first, slot->nmailboxes);
}

/* Requests the next chunks for mailboxes whose chunks were finished. */
static void
look_at_mailboxes(int at, CoscanSlot *slot)
{
	for (uint32 mailbox = 0; mailbox < slot->nmailboxes; mailbox++)
	{
		uint64		word = pg_atomic_read_u64(&slot->mailboxes[mailbox]);
		MailboxState state = MAILBOX_STATE(word);

		if (state != MAILBOX_DONE && state != MAILBOX_DONE_MISSED)
			continue;
		if (state == MAILBOX_DONE_MISSED)
			coscan_pages_missed(&slot->file);
		pg_atomic_write_u64(&slot->mailboxes[mailbox], MAILBOX_WORD(known[at].generation, MAILBOX_EMPTY, 0, 0));
		DECIDE(coscan_host_done, at, mailbox);
	}
}

static void
release_slot(int at, CoscanSlot *slot)
{
	if (known[at].generation != 0)
	{
		DECIDE(coscan_host_gone, at);
		carry_out_all();
		known[at].generation = 0;
		pg_atomic_fetch_sub_u32(&coscan->registered, 1);
	}
	pg_memory_barrier();
	pg_atomic_write_u32(&slot->state, SLOT_FREE);
	ConditionVariableBroadcast(&slot->wakeup);
}

static void
look_at_slots(void)
{
	for (int at = 0; at < coscan->nslots; at++)
	{
		CoscanSlot *slot = &coscan->slots[at];
		uint32		state = pg_atomic_read_u32(&slot->state);

		if (state != SLOT_ACTIVE && state != SLOT_LEAVING)
			continue;
		pg_read_barrier();
		if (slot->epoch != my_epoch)
			continue;
		if (state == SLOT_LEAVING)
			release_slot(at, slot);
		else if (known[at].generation == 0)
			register_scan(at, slot);
		else
			look_at_mailboxes(at, slot);
	}
}

/* Frees slots of processes that ended after their fetcher had ended. */
static void
sweep_slots(void)
{
	for (int at = 0; at < coscan->nslots; at++)
	{
		CoscanSlot *slot = &coscan->slots[at];
		uint32		leaving = SLOT_LEAVING;

		if (pg_atomic_read_u32(&slot->state) == SLOT_LEAVING && kill(slot->pid, 0) != 0 && errno == ESRCH)
			pg_atomic_compare_exchange_u32(&slot->state, &leaving, SLOT_FREE);
	}
}

/* Handles signals, changed settings, and requests of the SQL functions. */
static void
look_around(void)
{
	uint32		forced = pg_atomic_read_u32(&coscan->forced_policy);

	CHECK_FOR_INTERRUPTS();
	if (catchupInterruptPending)
		ProcessCatchupInterrupt();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
		coscan->budget_pages = coscan_budget_pages();
		DECIDE(coscan_host_set_budget, (uint64) coscan->budget_pages * BLCKSZ);
	}
	if (forced != policy_in_force)
	{
		policy_in_force = forced;
		DECIDE(coscan_host_force_policy, forced);
	}
	if (pg_atomic_exchange_u32(&coscan->panic, 0) != 0 && coscan_panic() == COSCAN_PANICKED)
		panicked();
	pg_atomic_fetch_add_u64(&coscan->heartbeat, 1);
}

static long
time_to_sleep_ms(void)
{
	uint64		deadline = coscan_host_next_deadline(host);
	uint64		now = now_ns();
	long		longest = coscan_pages_pinned() > 0 ? YIELD_INTERVAL_MS : 1000;

	if (deadline == COSCAN_NEVER)
		return longest;
	return deadline <= now ? 0 : Min(longest, (long) ((deadline - now) / 1000000 + 1));
}

static void
serve(void)
{
	uint64		yielded = 0;

	for (;;)
	{
		uint64		load;
		bool		read;

		ResetLatch(MyLatch);
		look_around();
		look_at_slots();
		if (coscan_host_next_deadline(host) <= now_ns())
			DECIDE(coscan_host_time_passed);
		carry_out_all();
		if (now_ns() - yielded > (uint64) YIELD_INTERVAL_MS * 1000000)
		{
			yielded = now_ns();
			coscan_count(COUNT_PINS_YIELDED, coscan_pages_yield());
		}
		if (coscan_pages_reading())
		{
			if (coscan_pages_read_on(&load, &read))
				DECIDE(coscan_host_loaded, load, read);
			continue;
		}
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, time_to_sleep_ms(),
						 PG_WAIT_EXTENSION);
	}
}

void
coscan_fetcher_main(Datum arg)
{
	pqsignal(SIGTERM, die);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	MemoryContextSwitchTo(TopMemoryContext);
	coscan->budget_pages = coscan_budget_pages();
	host = coscan_host_new((uint64) coscan->budget_pages * BLCKSZ, (uint64) coscan->chunk_pages * BLCKSZ,
						   LOADS_IN_FLIGHT, coscan_trace);
	if (host == NULL)
		panicked();
	known = palloc0(sizeof(Known) * coscan->nslots);
	coscan_pages_init();
	sweep_slots();

	pg_atomic_write_u32(&coscan->registered, 0);
	coscan->fetcher_latch = MyLatch;
	coscan->fetcher_pid = MyProcPid;
	pg_memory_barrier();
	before_shmem_exit(end_service, 0);
	my_epoch = pg_atomic_add_fetch_u64(&coscan->epoch, 1);
	Assert(coscan_epoch_serves(my_epoch));
	if (my_epoch > 1)
		coscan_count(COUNT_RESTARTS, 1);
	serve();
}
