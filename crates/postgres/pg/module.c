/*
 * Settings, hooks, shared memory, and the registration of the fetcher.
 */
#include "coscan.h"

#include "fmgr.h"
#include "postmaster/bgworker.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/memutils.h"

PG_MODULE_MAGIC;

CoscanShared *coscan = NULL;

bool		coscan_enabled = true;
int			coscan_policy = 0;
int			coscan_min_table_size = -1;
int			coscan_buffer_size = -1;
int			coscan_chunk_size = 256;
int			coscan_max_scans = 128;
bool		coscan_parallel = true;
bool		coscan_always = false;
char	   *coscan_trace = NULL;
const struct config_enum_entry *coscan_policies = NULL;

static shmem_request_hook_type previous_shmem_request = NULL;
static shmem_startup_hook_type previous_shmem_startup = NULL;

/* The minimum number of chunks that gives a manager a choice. */
#define CHUNKS_MIN 4
#define CHUNK_PAGES_MIN 8

/*
 * The pages of a chunk: the setting, or fewer if half of shared buffers has no room for CHUNKS_MIN chunks.
 */
static uint32
chunk_pages(void)
{
	uint32		pages = coscan_chunk_size;

	while (pages > CHUNK_PAGES_MIN && pages * CHUNKS_MIN > (uint32) NBuffers / 2)
		pages /= 2;
	return pages;
}

/* The pages that may be pinned: the setting, by default a quarter of shared buffers, at most half of them. */
uint32
coscan_budget_pages(void)
{
	uint32		most = NBuffers / 2;
	uint32		least = chunk_pages() * CHUNKS_MIN;
	uint32		pages = coscan_buffer_size < 0 ? (uint32) NBuffers / 4 : (uint32) coscan_buffer_size;

	if (most < least)
		return 0;
	return Max(least, Min(pages, most));
}

static int
frames_max(void)
{
	return NBuffers / 2 / chunk_pages() + 1;
}

static Size
shared_size(void)
{
	Size		size = MAXALIGN(sizeof(CoscanShared));

	size = add_size(size, MAXALIGN(mul_size(frames_max(), sizeof(CoscanFrameInfo))));
	return add_size(size, mul_size(coscan_max_scans, sizeof(CoscanSlot)));
}

static void
request_shared_memory(void)
{
	if (previous_shmem_request)
		previous_shmem_request();
	RequestAddinShmemSpace(shared_size());
}

static void
init_slot(CoscanSlot *slot)
{
	pg_atomic_init_u32(&slot->state, SLOT_FREE);
	pg_atomic_init_u32(&slot->generation, 0);
	pg_atomic_init_u32(&slot->finished, 0);
	pg_atomic_init_u32(&slot->failed, 0);
	pg_atomic_init_u32(&slot->delivered, 0);
	pg_atomic_init_u32(&slot->done, 0);
	pg_atomic_init_u32(&slot->waiting, 0);
	pg_atomic_init_u32(&slot->waits, 0);
	for (int i = 0; i < 3; i++)
		pg_atomic_init_u32(&slot->from[i], 0);
	ConditionVariableInit(&slot->wakeup);
	for (int i = 0; i < COSCAN_MAILBOXES; i++)
		pg_atomic_init_u64(&slot->mailboxes[i], 0);
}

static void
init_shared(void)
{
	char	   *base = (char *) coscan;

	memset(coscan, 0, shared_size());
	pg_atomic_init_u64(&coscan->epoch, 0);
	pg_atomic_init_u64(&coscan->heartbeat, 0);
	pg_atomic_init_u32(&coscan->registered, 0);
	pg_atomic_init_u32(&coscan->forced_policy, COSCAN_NO_POLICY);
	pg_atomic_init_u32(&coscan->panic, 0);
	for (int i = 0; i < COSCAN_COUNTERS; i++)
		pg_atomic_init_u64(&coscan->counters[i], 0);
	coscan->chunk_pages = chunk_pages();
	coscan->budget_pages = coscan_budget_pages();
	coscan->nslots = coscan_max_scans;
	coscan->nframes = frames_max();
	coscan->frames = (CoscanFrameInfo *) (base + MAXALIGN(sizeof(CoscanShared)));
	coscan->slots = (CoscanSlot *) ((char *) coscan->frames +
									MAXALIGN(sizeof(CoscanFrameInfo) * coscan->nframes));
	for (int i = 0; i < coscan->nslots; i++)
		init_slot(&coscan->slots[i]);
}

static void
startup_shared_memory(void)
{
	bool		found;

	if (previous_shmem_startup)
		previous_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	coscan = ShmemInitStruct("coscan", shared_size(), &found);
	if (!found)
		init_shared();
	LWLockRelease(AddinShmemInitLock);
}

/* Lists the policies that sessions can choose: those of the manager's registry. */
static void
list_policies(void)
{
	struct config_enum_entry *entries;
	int			n = 0;

	while (coscan_policy_name(n) != NULL)
		n++;
	entries = MemoryContextAllocZero(TopMemoryContext, sizeof(struct config_enum_entry) * (n + 1));
	for (int i = 0; i < n; i++)
	{
		entries[i].name = coscan_policy_name(i);
		entries[i].val = i;
		if (strcmp(entries[i].name, "relevance") == 0)
			coscan_policy = i;
	}
	coscan_policies = entries;
}

static void
define_settings(void)
{
	DefineCustomBoolVariable("coscan.enabled",
							 "Lets sequential scans of this session cooperate with others.",
							 NULL, &coscan_enabled, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("coscan.policy",
							 "Decides what is read next and for whom, for the scans of this session.",
							 "Scans under one policy share their reads; the buffer is divided among policies in use.",
							 &coscan_policy, coscan_policy, coscan_policies, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("coscan.parallel",
							 "Lets parallel sequential scans of this session cooperate, too.",
							 NULL, &coscan_parallel, true, PGC_USERSET, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("coscan.always_register",
							 "Registers scans also while their tables lie in shared buffers.",
							 "For tests: there is nothing to read for such a scan, and nobody to share with.",
							 &coscan_always, false, PGC_USERSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("coscan.min_table_size",
							"Scans of smaller tables stay plain.",
							"-1 stands for a quarter of shared_buffers, above which PostgreSQL itself treats scans as large.",
							&coscan_min_table_size, -1, -1, INT_MAX, PGC_USERSET, GUC_UNIT_BLOCKS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("coscan.buffer_size",
							"The part of shared_buffers that may be kept for scans, half of them at most.",
							"-1 stands for a quarter of shared_buffers.",
							&coscan_buffer_size, -1, -1, INT_MAX / 2, PGC_SIGHUP, GUC_UNIT_BLOCKS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("coscan.chunk_size",
							"What is read and handed out at a time.",
							NULL, &coscan_chunk_size, 256, CHUNK_PAGES_MIN, 2048, PGC_POSTMASTER,
							GUC_UNIT_BLOCKS, NULL, NULL, NULL);
	DefineCustomIntVariable("coscan.max_scans",
							"How many scans can cooperate at once; others stay plain.",
							NULL, &coscan_max_scans, 128, 1, 8192, PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomStringVariable("coscan.trace",
							   "Records what the manager is told and decides, for replay by coscan sim replay.",
							   "The beginning of file names, relative to the data directory; the policy is appended.",
							   &coscan_trace, "", PGC_POSTMASTER, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
	MarkGUCPrefixReserved("coscan");
}

static void
register_fetcher(void)
{
	BackgroundWorker worker = {0};

	worker.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_ConsistentState;
	worker.bgw_restart_time = 1;
	strlcpy(worker.bgw_library_name, "coscan", BGW_MAXLEN);
	strlcpy(worker.bgw_function_name, "coscan_fetcher_main", BGW_MAXLEN);
	strlcpy(worker.bgw_name, "coscan fetcher", BGW_MAXLEN);
	strlcpy(worker.bgw_type, "coscan fetcher", BGW_MAXLEN);
	RegisterBackgroundWorker(&worker);
}

void		_PG_init(void);

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	list_policies();
	define_settings();
	previous_shmem_request = shmem_request_hook;
	shmem_request_hook = request_shared_memory;
	previous_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = startup_shared_memory;
	coscan_plan_init();
	coscan_scan_init();
	coscan_lease_init();
	register_fetcher();
}
