/*
 * A backend's lease of a slot: taking it, taking chunks from its mailboxes, returning it.
 *
 * The slot is returned, and the return acknowledged, before the lock on the relation is released. From then on the
 * fetcher uses no page of the relation. This holds after errors too: a resource release callback runs before locks
 * are released. Waits in this file end even if the fetcher is dead.
 */
#include "coscan.h"

#include "lib/ilist.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

/* Backends do not wait for a fetcher without a heartbeat for this long. */
#define TAKE_PATIENCE_S 10
#define RETURN_PATIENCE_S 60

struct CoscanLease
{
	dlist_node	node;
	ResourceOwner owner;
	CoscanTicket ticket;
};

static dlist_head leases = DLIST_STATIC_INIT(leases);

static inline CoscanSlot *
slot_of(const CoscanTicket *ticket)
{
	return &coscan->slots[ticket->slot];
}

static inline bool
is_served(const CoscanTicket *ticket)
{
	CoscanSlot *slot = slot_of(ticket);

	return pg_atomic_read_u32(&slot->generation) == ticket->generation &&
		pg_atomic_read_u64(&coscan->epoch) == ticket->epoch &&
		pg_atomic_read_u32(&slot->failed) == 0;
}

static inline void
wake_fetcher(void)
{
	SetLatch(coscan->fetcher_latch);
}

/*
 * Waits until the fetcher has released the slot. Interrupts are held, because after an error, and before a lock is
 * released, the backend cannot do anything else. The fetcher answers between two reads of some pages.
 */
static void
await_release(const CoscanTicket *ticket)
{
	CoscanSlot *slot = slot_of(ticket);
	uint64		heartbeat = pg_atomic_read_u64(&coscan->heartbeat);
	int			silent_s = 0;

	HOLD_INTERRUPTS();
	ConditionVariablePrepareToSleep(&slot->wakeup);
	for (;;)
	{
		if (pg_atomic_read_u32(&slot->generation) != ticket->generation ||
			pg_atomic_read_u32(&slot->state) == SLOT_FREE)
			break;
		if (pg_atomic_read_u64(&coscan->epoch) != ticket->epoch)
		{
			uint32		leaving = SLOT_LEAVING;

			pg_atomic_compare_exchange_u32(&slot->state, &leaving, SLOT_FREE);
			break;
		}
		if (ConditionVariableTimedSleep(&slot->wakeup, 1000, PG_WAIT_EXTENSION))
		{
			uint64		now = pg_atomic_read_u64(&coscan->heartbeat);

			silent_s = now == heartbeat ? silent_s + 1 : 0;
			heartbeat = now;
			if (silent_s >= RETURN_PATIENCE_S)
			{
				ereport(WARNING,
						(errmsg("the coscan fetcher has not answered for %d seconds", silent_s),
						 errdetail("Its pins on the table may outlive the lock of this scan.")));
				break;
			}
			wake_fetcher();
		}
	}
	ConditionVariableCancelSleep();
	RESUME_INTERRUPTS();
}

static void
leave(CoscanLease *lease, bool wait)
{
	CoscanTicket ticket = lease->ticket;
	CoscanSlot *slot = slot_of(&ticket);

	dlist_delete(&lease->node);
	pfree(lease);
	if (pg_atomic_read_u64(&coscan->epoch) != ticket.epoch)
	{
		/* The slot's fetcher has ended, and another fetcher ignores this slot. */
		pg_atomic_write_u32(&slot->state, SLOT_FREE);
		return;
	}
	pg_atomic_write_u32(&slot->state, SLOT_LEAVING);
	pg_memory_barrier();
	wake_fetcher();
	if (wait)
		await_release(&ticket);
}

/* Returns the leases of a failed resource owner, before its locks are released. */
static void
release_leases(ResourceReleasePhase phase, bool isCommit, bool isTopLevel, void *arg)
{
	dlist_mutable_iter iter;

	if (phase != RESOURCE_RELEASE_BEFORE_LOCKS)
		return;
	dlist_foreach_modify(iter, &leases)
	{
		CoscanLease *lease = dlist_container(CoscanLease, node, iter.cur);

		if (lease->owner == CurrentResourceOwner)
			leave(lease, true);
	}
}

/* The last resort: a process that ends with leases returns them without waiting. */
static void
leave_at_exit(int code, Datum arg)
{
	while (!dlist_is_empty(&leases))
		leave(dlist_container(CoscanLease, node, dlist_head_node(&leases)), false);
}

void
coscan_lease_init(void)
{
	RegisterResourceReleaseCallback(release_leases, NULL);
}

/* True if the fetcher serves a scan of the file. */
bool
coscan_is_scanned(const RelFileNode *file)
{
	if (pg_atomic_read_u32(&coscan->registered) == 0)
		return false;
	for (int i = 0; i < coscan->nslots; i++)
	{
		CoscanSlot *slot = &coscan->slots[i];

		if (pg_atomic_read_u32(&slot->state) == SLOT_ACTIVE && RelFileNodeEquals(slot->file, *file))
			return true;
	}
	return false;
}

static CoscanSlot *
claim_slot(void)
{
	int			start = MyProc->pgprocno % coscan->nslots;

	for (int i = 0; i < coscan->nslots; i++)
	{
		CoscanSlot *slot = &coscan->slots[(start + i) % coscan->nslots];
		uint32		is_free = SLOT_FREE;

		if (pg_atomic_read_u32(&slot->state) == SLOT_FREE &&
			pg_atomic_compare_exchange_u32(&slot->state, &is_free, SLOT_CLAIMED))
			return slot;
	}
	return NULL;
}

/*
 * Registers a scan with the fetcher. NULL if there is no fetcher or no free slot, or if more processes
 * take part than have mailboxes: the scan continues alone.
 */
CoscanLease *
coscan_lease_take(Relation relation, BlockNumber nblocks, uint32 chunks, uint32 first,
				  uint32 nmailboxes, CoscanTicket *ticket)
{
	static bool exit_registered = false;
	uint64		epoch = pg_atomic_read_u64(&coscan->epoch);
	CoscanLease *lease;
	CoscanSlot *slot;
	uint32		generation;

	ticket->slot = -1;
	if (!coscan_epoch_serves(epoch) || nmailboxes > COSCAN_MAILBOXES)
	{
		coscan_count(COUNT_ALONE, 1);
		return NULL;
	}
	if (!exit_registered)
	{
		before_shmem_exit(leave_at_exit, 0);
		exit_registered = true;
	}
	lease = MemoryContextAlloc(TopMemoryContext, sizeof(CoscanLease));
	slot = claim_slot();
	if (slot == NULL)
	{
		pfree(lease);
		coscan_count(COUNT_NO_SLOT, 1);
		return NULL;
	}
	generation = pg_atomic_add_fetch_u32(&slot->generation, 1) & 0xffffff;
	if (generation == 0)
		generation = 1;
	pg_atomic_write_u32(&slot->generation, generation);
	pg_atomic_write_u32(&slot->finished, 0);
	pg_atomic_write_u32(&slot->failed, 0);
	slot->epoch = epoch;
	slot->pid = MyProcPid;
	slot->database = MyDatabaseId;
	slot->relid = RelationGetRelid(relation);
	slot->file = relation->rd_node;
	slot->permanent = relation->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT;
	slot->policy = coscan_policy;
	slot->chunks = chunks;
	slot->first = first;
	slot->nmailboxes = nmailboxes;
	slot->nblocks = nblocks;
	slot->started = GetCurrentTimestamp();
	pg_atomic_write_u32(&slot->delivered, 0);
	pg_atomic_write_u32(&slot->done, 0);
	pg_atomic_write_u32(&slot->waiting, 0);
	pg_atomic_write_u32(&slot->waits, 0);
	for (int i = 0; i < 3; i++)
		pg_atomic_write_u32(&slot->from[i], 0);
	for (uint32 i = 0; i < nmailboxes; i++)
		pg_atomic_write_u64(&slot->mailboxes[i], MAILBOX_WORD(generation, MAILBOX_EMPTY, 0, 0));

	ticket->slot = slot - coscan->slots;
	ticket->generation = generation;
	ticket->epoch = epoch;
	lease->owner = CurrentResourceOwner;
	lease->ticket = *ticket;
	dlist_push_tail(&leases, &lease->node);

	pg_memory_barrier();
	pg_atomic_write_u32(&slot->state, SLOT_ACTIVE);
	pg_memory_barrier();
	wake_fetcher();
	coscan_count(COUNT_SCANS, 1);
	return lease;
}

void
coscan_lease_return(CoscanLease *lease)
{
	leave(lease, true);
}

/* Takes a ready chunk. Looks first at the mailbox after the last one, because its chunk is the oldest. */
static bool
take_ready(const CoscanTicket *ticket, CoscanChunk *chunk)
{
	CoscanSlot *slot = slot_of(ticket);
	uint32		nmailboxes = slot->nmailboxes;

	for (uint32 i = 1; i <= nmailboxes; i++)
	{
		int			mailbox = (chunk->mailbox + i) % nmailboxes;
		uint64		word = pg_atomic_read_u64(&slot->mailboxes[mailbox]);

		if (MAILBOX_STATE(word) != MAILBOX_DELIVERED || MAILBOX_GENERATION(word) != ticket->generation)
			continue;
		if (!pg_atomic_compare_exchange_u64(&slot->mailboxes[mailbox], &word,
											MAILBOX_WORD(ticket->generation, MAILBOX_TAKEN,
													  MAILBOX_SOURCE(word), MAILBOX_CHUNK(word))))
			continue;
		chunk->mailbox = mailbox;
		chunk->chunk = MAILBOX_CHUNK(word);
		chunk->source = MAILBOX_SOURCE(word);
		return true;
	}
	return false;
}

/*
 * Waits for the next chunk of the scan. chunk->mailbox is that of the last one, or -1. Adds up the number and the
 * time of waits.
 */
CoscanTaken
coscan_take(const CoscanTicket *ticket, CoscanChunk *chunk, uint32 *waits, uint64 *wait_us)
{
	CoscanSlot *slot = slot_of(ticket);
	CoscanTaken result = TAKEN_ALONE;
	TimestampTz since = 0;
	uint64		heartbeat = 0;
	int			silent_s = 0;

	while (is_served(ticket))
	{
		/* Read before the mailboxes, so that the last deliveries are visible in them. */
		bool		finished = pg_atomic_read_u32(&slot->finished) != 0;

		pg_read_barrier();
		if (take_ready(ticket, chunk))
		{
			result = TAKEN_CHUNK;
			break;
		}
		if (finished)
		{
			result = TAKEN_ALL;
			break;
		}
		if (since == 0)
		{
			since = GetCurrentTimestamp();
			heartbeat = pg_atomic_read_u64(&coscan->heartbeat);
			pg_atomic_fetch_add_u32(&slot->waiting, 1);
			pg_atomic_fetch_add_u32(&slot->waits, 1);
			/* Check once more after entering the queue of processes to wake. */
			ConditionVariablePrepareToSleep(&slot->wakeup);
			continue;
		}
		if (ConditionVariableTimedSleep(&slot->wakeup, 1000, PG_WAIT_EXTENSION))
		{
			uint64		now = pg_atomic_read_u64(&coscan->heartbeat);

			silent_s = now == heartbeat ? silent_s + 1 : 0;
			heartbeat = now;
			if (silent_s >= TAKE_PATIENCE_S)
				break;
			wake_fetcher();
		}
	}
	if (since != 0)
	{
		ConditionVariableCancelSleep();
		if (pg_atomic_read_u32(&slot->generation) == ticket->generation)
			pg_atomic_fetch_sub_u32(&slot->waiting, 1);
		*waits += 1;
		*wait_us += GetCurrentTimestamp() - since;
		coscan_count(COUNT_WAITS, 1);
	}
	if (result == TAKEN_ALONE)
		coscan_count(COUNT_ALONE, 1);
	return result;
}

/* Notes that a chunk is finished; `missed`: this backend had to read pages of it. */
void
coscan_done(const CoscanTicket *ticket, const CoscanChunk *chunk, bool missed)
{
	CoscanSlot *slot = slot_of(ticket);
	uint64		taken = MAILBOX_WORD(ticket->generation, MAILBOX_TAKEN, chunk->source, chunk->chunk);
	MailboxState state = missed ? MAILBOX_DONE_MISSED : MAILBOX_DONE;

	if (!is_served(ticket))
		return;
	if (pg_atomic_compare_exchange_u64(&slot->mailboxes[chunk->mailbox], &taken,
									   MAILBOX_WORD(ticket->generation, state, chunk->source, chunk->chunk)))
	{
		pg_atomic_fetch_add_u32(&slot->done, 1);
		wake_fetcher();
	}
}
