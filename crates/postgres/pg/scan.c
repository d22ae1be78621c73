/*
 * The scan node: a sequential scan that takes its chunks in the order of the fetcher's deliveries.
 *
 * Inside a chunk it is PostgreSQL's own heap scan, limited to the chunk's pages. While the next chunk is in shared
 * buffers and no other scan reads the table, there is nothing to decide. The scan then continues in table order
 * without the fetcher, and registers for the rest when that changes. It also continues alone when the fetcher has
 * ended, has no slot or gives up.
 */
#include "coscan.h"

#include "scan.h"

#include "access/heapam.h"
#include "access/parallel.h"
#include "access/tableam.h"
#include "executor/executor.h"
#include "executor/instrument.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

/* Pages that are sampled to check whether a chunk, or a table, is in shared buffers. */
#define SAMPLES_OF_CHUNK 8
#define SAMPLES_OF_TABLE 256

static Size
progress_size(uint32 chunks)
{
	return add_size(offsetof(Progress, claimed), mul_size(chunks / 32 + 1, sizeof(pg_atomic_uint32)));
}

static uint32
chunks_of(BlockNumber nblocks)
{
	return nblocks / coscan->chunk_pages + (nblocks % coscan->chunk_pages != 0 ? 1 : 0);
}

static void
progress_begin(Progress *progress, BlockNumber nblocks)
{
	uint32		forced = pg_atomic_read_u32(&coscan->forced_policy);

	progress->ticket.slot = -1;
	progress->policy = forced == COSCAN_NO_POLICY ? coscan_policy : forced;
	progress->nblocks = nblocks;
	progress->chunk_pages = coscan->chunk_pages;
	progress->chunks = chunks_of(nblocks);
	pg_atomic_init_u32(&progress->next_alone, 0);
	for (int i = 0; i < SCAN_COUNTS; i++)
		pg_atomic_init_u64(&progress->counts[i], 0);
	for (uint32 i = 0; i <= progress->chunks / 32; i++)
		pg_atomic_init_u32(&progress->claimed[i], 0);
}

/* Claims a chunk for this process; false if it was claimed already. */
static bool
claim(Progress *progress, uint32 chunk)
{
	uint32		bit = (uint32) 1 << (chunk % 32);

	if (chunk >= progress->chunks)
		return false;
	return (pg_atomic_fetch_or_u32(&progress->claimed[chunk / 32], bit) & bit) == 0;
}

static inline void
count(CoscanScanState *state, ScanCount what, uint64 by)
{
	pg_atomic_fetch_add_u64(&state->progress->counts[what], by);
}

/* Adds the counts of a finished round to the totals. */
static void
keep_counts(CoscanScanState *state)
{
	if (state->progress == NULL || IsParallelWorker())
		return;
	for (int i = 0; i < SCAN_COUNTS; i++)
		state->totals[i] += pg_atomic_exchange_u64(&state->progress->counts[i], 0);
	state->policy = state->progress->policy;
	state->used = true;
}

static void
return_lease(CoscanScanState *state)
{
	if (state->lease != NULL)
	{
		coscan_lease_return(state->lease);
		state->lease = NULL;
	}
	state->alone = true;
}

static bool
registers(CoscanScanState *state)
{
	return coscan_enabled && state->progress->chunks > 0 && state->css.ss.ps.state->es_epq_active == NULL;
}

/* Registers the rest of the scan with the fetcher, for this number of processes. */
static void
take_lease(CoscanScanState *state, uint32 processes)
{
	Progress   *progress = state->progress;
	uint32		first = pg_atomic_read_u32(&progress->next_alone);

	state->may_register = false;
	state->lease = coscan_lease_take(state->css.ss.ss_currentRelation, progress->nblocks, progress->chunks,
									 first, processes + 1, &progress->ticket);
	state->alone = state->lease == NULL;
}

/* True if pages must be read, or another scan reads the table. */
static bool
has_to_share(CoscanScanState *state, BlockNumber first, BlockNumber end, uint32 samples)
{
	const RelFileNode *file = &state->css.ss.ss_currentRelation->rd_node;

	return coscan_always || coscan_is_scanned(file) || !coscan_seems_cached(file, first, end, samples);
}

/* Registers a scan that has run without the fetcher, if it needs the fetcher for its next chunk. */
static void
register_in_time(CoscanScanState *state)
{
	Progress   *progress = state->progress;
	BlockNumber first = pg_atomic_read_u32(&progress->next_alone) * progress->chunk_pages;
	BlockNumber end = Min(first + progress->chunk_pages, progress->nblocks);

	if (first < end && has_to_share(state, first, end, SAMPLES_OF_CHUNK))
		take_lease(state, 1);
}

/* Registers a parallel scan. Only its leader can do so, and only at the beginning. */
static void
register_shared(CoscanScanState *state, uint32 processes)
{
	if (registers(state) && has_to_share(state, 0, state->progress->nblocks, SAMPLES_OF_TABLE))
		take_lease(state, processes);
	state->may_register = false;
}

static TableScanDesc
heap_scan(CoscanScanState *state)
{
	ScanState  *ss = &state->css.ss;

	if (ss->ss_currentScanDesc == NULL)
		ss->ss_currentScanDesc = table_beginscan_strat(ss->ss_currentRelation, ss->ps.state->es_snapshot,
													   0, NULL, true, false);
	return ss->ss_currentScanDesc;
}

/* Prepares the first row. */
static void
start(CoscanScanState *state)
{
	HeapScanDesc heap = (HeapScanDesc) heap_scan(state);

	if (!state->shared && state->progress == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(state->css.ss.ps.state->es_query_cxt);

		state->progress = palloc0(progress_size(chunks_of(heap->rs_nblocks)));
		MemoryContextSwitchTo(old);
		progress_begin(state->progress, heap->rs_nblocks);
		state->may_register = registers(state);
	}
	state->alone = state->progress->ticket.slot < 0;
	state->last_mailbox = -1;
}

/* Takes the next chunk that the fetcher delivers. */
static bool
next_served(CoscanScanState *state)
{
	Progress   *progress = state->progress;

	while (!state->alone)
	{
		uint32		waits = 0;
		uint64		wait_us = 0;
		CoscanTaken taken;

		state->chunk.mailbox = state->last_mailbox;
		taken = coscan_take(&progress->ticket, &state->chunk, &waits, &wait_us);
		if (waits > 0)
		{
			count(state, SCAN_WAITS, waits);
			count(state, SCAN_WAIT_US, wait_us);
		}
		if (taken != TAKEN_CHUNK)
		{
			state->alone = true;
			return false;
		}
		state->last_mailbox = state->chunk.mailbox;
		if (claim(progress, state->chunk.chunk))
		{
			count(state, (ScanCount) state->chunk.source, 1);
			return true;
		}
		coscan_done(&progress->ticket, &state->chunk, false);
	}
	return false;
}

/* Takes the next unclaimed chunk, in table order. */
static bool
next_alone(CoscanScanState *state)
{
	Progress   *progress = state->progress;

	while (pg_atomic_read_u32(&progress->next_alone) < progress->chunks)
	{
		uint32		chunk = pg_atomic_fetch_add_u32(&progress->next_alone, 1);

		if (claim(progress, chunk))
		{
			state->chunk.chunk = chunk;
			state->chunk.mailbox = -1;
			count(state, state->may_register ? SCAN_CACHED : SCAN_ALONE, 1);
			return true;
		}
	}
	return false;
}

static bool
next_chunk(CoscanScanState *state)
{
	Progress   *progress;
	BlockNumber first;

	if (state->ended)
		return false;
	if (state->last_mailbox == -2)
		start(state);
	progress = state->progress;
	if (state->may_register)
		register_in_time(state);
	if (!next_served(state) && !next_alone(state))
	{
		state->ended = true;
		return false;
	}
	first = state->chunk.chunk * progress->chunk_pages;
	heap_setscanlimits(state->css.ss.ss_currentScanDesc, first,
					   Min(progress->chunk_pages, progress->nblocks - first));
	state->reads_before = pgBufferUsage.shared_blks_read;
	state->in_chunk = true;
	return true;
}

static void
finish_chunk(CoscanScanState *state)
{
	state->in_chunk = false;
	if (state->chunk.mailbox >= 0)
		coscan_done(&state->progress->ticket, &state->chunk,
					pgBufferUsage.shared_blks_read != state->reads_before);
}

static inline bool
row_of_chunk(ScanState *node)
{
	return table_scan_getnextslot(node->ss_currentScanDesc, ForwardScanDirection, node->ss_ScanTupleSlot);
}

/* The first row of the next chunk that has one. Not inlined, to keep the path of other rows short. */
static pg_noinline TupleTableSlot *
first_row(ScanState *node)
{
	CoscanScanState *state = (CoscanScanState *) node;

	if (state->in_chunk)
		finish_chunk(state);
	while (next_chunk(state))
	{
		if (row_of_chunk(node))
			return node->ss_ScanTupleSlot;
		finish_chunk(state);
	}
	return NULL;
}

static TupleTableSlot *
next_row(ScanState *node)
{
	if (likely(((CoscanScanState *) node)->in_chunk) && likely(row_of_chunk(node)))
		return node->ss_ScanTupleSlot;
	return first_row(node);
}

/* The node has only its own conditions, which ExecScan checks again. */
static bool
recheck(ScanState *node, TupleTableSlot *slot)
{
	return true;
}

static TupleTableSlot *
execute_node(PlanState *node)
{
	return ExecScan((ScanState *) node, next_row, recheck);
}

static TupleTableSlot *
execute(CustomScanState *node)
{
	return execute_node(&node->ss.ps);
}

/*
 * The executor has prepared the node for virtual tuples. The node returns heap tuples, as a sequential scan does.
 * So slot, projection and conditions are compiled for heap tuples, and the node is called directly.
 */
static void
begin(CustomScanState *node, EState *estate, int eflags)
{
	Relation	relation = node->ss.ss_currentRelation;

	ExecInitScanTupleSlot(estate, &node->ss, RelationGetDescr(relation), table_slot_callbacks(relation));
	ExecInitResultTypeTL(&node->ss.ps);
	ExecAssignScanProjectionInfo(&node->ss);
	node->ss.ps.qual = ExecInitQual(node->ss.ps.plan->qual, &node->ss.ps);
	node->ss.ps.ExecProcNode = execute_node;
}

static void
end(CustomScanState *node)
{
	CoscanScanState *state = (CoscanScanState *) node;

	if (node->ss.ss_currentScanDesc != NULL)
		table_endscan(node->ss.ss_currentScanDesc);
	return_lease(state);
}

/* Resets the node for another round; the first row starts it. */
static void
reset(CoscanScanState *state)
{
	state->may_register = state->alone = state->in_chunk = state->ended = false;
	state->last_mailbox = -2;
}

static void
rescan(CustomScanState *node)
{
	CoscanScanState *state = (CoscanScanState *) node;

	if (!state->shared)
	{
		return_lease(state);
		keep_counts(state);
		if (state->progress != NULL)
			pfree(state->progress);
		state->progress = NULL;
	}
	if (node->ss.ss_currentScanDesc != NULL)
		table_rescan(node->ss.ss_currentScanDesc, NULL);
	reset(state);
	ExecScanReScan(&node->ss);
}

/* No more rows are wanted, but EXPLAIN may follow. A scan that continues nevertheless does so alone. */
static void
shutdown_scan(CustomScanState *node)
{
	CoscanScanState *state = (CoscanScanState *) node;

	keep_counts(state);
	if (!state->shared)
		return_lease(state);
}

static Size
estimate_shared(CustomScanState *node, ParallelContext *pcxt)
{
	CoscanScanState *state = (CoscanScanState *) node;

	state->nblocks = RelationGetNumberOfBlocks(node->ss.ss_currentRelation);
	return progress_size(chunks_of(state->nblocks));
}

static void
begin_shared(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	CoscanScanState *state = (CoscanScanState *) node;

	return_lease(state);
	state->shared = true;
	state->progress = coordinate;
	progress_begin(state->progress, state->nblocks);
	reset(state);
	register_shared(state, pcxt->nworkers + 1);
}

static void
begin_shared_again(CustomScanState *node, ParallelContext *pcxt, void *coordinate)
{
	CoscanScanState *state = (CoscanScanState *) node;

	return_lease(state);
	keep_counts(state);
	progress_begin(state->progress, state->nblocks);
	reset(state);
	register_shared(state, pcxt->nworkers + 1);
}

static void
join_shared(CustomScanState *node, shm_toc *toc, void *coordinate)
{
	CoscanScanState *state = (CoscanScanState *) node;

	state->shared = true;
	state->progress = coordinate;
}

static const CustomExecMethods exec_methods = {
	.CustomName = "Coscan",
	.BeginCustomScan = begin,
	.ExecCustomScan = execute,
	.EndCustomScan = end,
	.ReScanCustomScan = rescan,
	.EstimateDSMCustomScan = estimate_shared,
	.InitializeDSMCustomScan = begin_shared,
	.ReInitializeDSMCustomScan = begin_shared_again,
	.InitializeWorkerCustomScan = join_shared,
	.ShutdownCustomScan = shutdown_scan,
	.ExplainCustomScan = coscan_explain,
};

static Node *
create_state(CustomScan *plan)
{
	CoscanScanState *state = (CoscanScanState *) newNode(sizeof(CoscanScanState), T_CustomScanState);

	state->css.methods = &exec_methods;
	reset(state);
	return (Node *) state;
}

const CustomScanMethods coscan_plan_methods = {
	.CustomName = "Coscan",
	.CreateCustomScanState = create_state,
};

void
coscan_scan_init(void)
{
	RegisterCustomScanMethods(&coscan_plan_methods);
}
