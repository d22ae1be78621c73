/*
 * The scan node's state, for the node and for EXPLAIN.
 */
#ifndef COSCAN_SCAN_H
#define COSCAN_SCAN_H

#include "access/relscan.h"
#include "commands/explain.h"
#include "nodes/execnodes.h"
#include "nodes/extensible.h"

#include "coscan.h"

/* Counts of a scan's chunks: the first three are the sources of ../src/commands.rs. */
typedef enum ScanCount
{
	SCAN_READ,
	SCAN_CACHED,
	SCAN_SHARED,
	SCAN_ALONE,
	SCAN_WAITS,
	SCAN_WAIT_US,
	SCAN_COUNTS
} ScanCount;

/*
 * The progress of a scan: one for all processes of a parallel scan. `claimed` has a bit for each chunk that a
 * process has begun. Only `claimed` decides which chunks are read. So every chunk is read exactly once, whatever
 * the fetcher answers.
 */
typedef struct Progress
{
	CoscanTicket ticket;
	uint32		policy;
	BlockNumber nblocks;
	uint32		chunk_pages;
	uint32		chunks;
	pg_atomic_uint32 next_alone;
	pg_atomic_uint64 counts[SCAN_COUNTS];
	pg_atomic_uint32 claimed[FLEXIBLE_ARRAY_MEMBER];
} Progress;

typedef struct CoscanScanState
{
	CustomScanState css;
	Progress   *progress;		/* NULL: not started */
	bool		shared;			/* progress is in the shared memory of a parallel plan */
	CoscanLease *lease;			/* held by the process that registered */
	bool		may_register;	/* not registered yet, but allowed to */
	bool		alone;			/* the fetcher is not asked */
	bool		in_chunk;
	bool		ended;
	CoscanChunk chunk;			/* mailbox -1: taken without the fetcher */
	int			last_mailbox;
	int64		reads_before;
	BlockNumber nblocks;		/* planned for a parallel scan */
	uint64		totals[SCAN_COUNTS];	/* of earlier rounds, for EXPLAIN */
	bool		used;
	uint32		policy;			/* that was used */
} CoscanScanState;

extern const CustomScanMethods coscan_plan_methods;
extern void coscan_explain(CustomScanState *node, List *ancestors, ExplainState *es);

#endif
