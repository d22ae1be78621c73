/*
 * Common declarations of the extension: settings and shared memory.
 *
 * module.c    settings, hooks, shared memory, the background worker's registration
 * plan.c      the choice of sequential scans that become cooperative
 * scan.c      the scan node
 * explain.c   its part of EXPLAIN
 * cached.c    look-ups in shared buffers
 * lease.c     a backend's lease of a slot: taking chunks, returning the slot, also after an error
 * fetcher.c   the process that owns the manager: slots to events, commands to actions
 * pages.c     the fetcher's frames: reading and pinning pages
 * views.c     the functions behind the views
 */
#ifndef COSCAN_H
#define COSCAN_H

#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "storage/block.h"
#include "storage/condition_variable.h"
#include "storage/latch.h"
#include "storage/lwlock.h"
#include "storage/relfilenode.h"
#include "utils/guc.h"
#include "utils/timestamp.h"

#include "manager.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 160000
#error "coscan supports PostgreSQL 15"
#endif

/*
 * Mailboxes of a scan: the maximum number of chunks delivered to it at a time. A scan has one more than processes. So no
 * process waits for another one to finish its chunk, which may wait for the first one to take its rows.
 */
#define COSCAN_MAILBOXES 64

/*
 * A mailbox is one 64-bit word, so that each change checks the owner in the same operation. The word has the slot's
 * generation, the state of the mailbox, the origin of its chunk, and the chunk.
 */
typedef enum MailboxState
{
	MAILBOX_EMPTY,				/* the fetcher may fill it */
	MAILBOX_DELIVERED,			/* a chunk is ready */
	MAILBOX_TAKEN,				/* a backend is reading it */
	MAILBOX_DONE,				/* the backend has finished it */
	MAILBOX_DONE_MISSED			/* finished, and pages were missing in shared buffers */
} MailboxState;

#define MAILBOX_WORD(generation, state, source, chunk) \
	(((uint64) (generation) & 0xffffff) << 40 | (uint64) (state) << 36 | (uint64) (source) << 32 | (uint64) (chunk))
#define MAILBOX_GENERATION(word) ((uint32) ((word) >> 40))
#define MAILBOX_STATE(word) ((MailboxState) ((word) >> 36 & 0xf))
#define MAILBOX_SOURCE(word) ((uint32) ((word) >> 32 & 0xf))
#define MAILBOX_CHUNK(word) ((uint32) (word))

/*
 * FREE -> CLAIMED and -> ACTIVE by the backend, -> LEAVING by the backend, -> FREE by the fetcher, or by the
 * backend if its fetcher has ended. Each claim makes a new generation. A process that waits for an answer compares
 * the generation, because the state may have gone through the whole cycle meanwhile.
 */
typedef enum SlotState
{
	SLOT_FREE,
	SLOT_CLAIMED,
	SLOT_ACTIVE,
	SLOT_LEAVING
} SlotState;

typedef struct CoscanSlot
{
	pg_atomic_uint32 state;
	pg_atomic_uint32 generation;
	pg_atomic_uint32 finished;	/* all remaining chunks are in mailboxes */
	pg_atomic_uint32 failed;	/* the scan must continue alone */

	/* The scan's announcement; constant while it is active. */
	uint64		epoch;			/* of its fetcher */
	int			pid;
	Oid			database;
	Oid			relid;
	RelFileNode file;
	bool		permanent;
	uint32		policy;
	uint32		chunks;
	uint32		first;			/* chunk that it needs; earlier ones were read alone */
	uint32		nmailboxes;
	BlockNumber nblocks;
	TimestampTz started;

	/* For views. */
	pg_atomic_uint32 delivered;
	pg_atomic_uint32 done;
	pg_atomic_uint32 waiting;	/* processes that wait for a chunk */
	pg_atomic_uint32 waits;
	pg_atomic_uint32 from[3];	/* deliveries by source */

	ConditionVariable wakeup;
	pg_atomic_uint64 mailboxes[COSCAN_MAILBOXES];
} CoscanSlot;

/* The public state of a frame. */
typedef struct CoscanFrameInfo
{
	Oid			database;
	Oid			relation;		/* file number; invalid: the frame is free */
	uint32		chunk;
	uint32		pages;
	bool		loaded;
	uint32		deliveries;
} CoscanFrameInfo;

typedef enum CoscanCounter
{
	COUNT_SCANS,				/* scans that registered */
	COUNT_NO_SLOT,				/* scans that found no free slot */
	COUNT_ALONE,				/* scans that continued alone */
	COUNT_CHUNKS_READ,
	COUNT_CHUNKS_CACHED,
	COUNT_CHUNKS_SHARED,
	COUNT_LOADS,
	COUNT_PAGES_READ,
	COUNT_PAGES_HIT,
	COUNT_EVICTIONS,
	COUNT_REVOCATIONS,
	COUNT_PINS_YIELDED,
	COUNT_LOAD_ERRORS,
	COUNT_WAITS,
	COUNT_DECISIONS,
	COUNT_DECISION_NS,
	COUNT_RESTARTS,
	COSCAN_COUNTERS
} CoscanCounter;

typedef struct CoscanShared
{
	/* Odd while a fetcher serves; incremented at its begin and at its end. */
	pg_atomic_uint64 epoch;
	pg_atomic_uint64 heartbeat;
	Latch	   *fetcher_latch;
	int			fetcher_pid;

	pg_atomic_uint32 registered;	/* scans that the fetcher serves */

	/* Requests of the SQL functions. */
	pg_atomic_uint32 forced_policy; /* a policy's number, or COSCAN_NO_POLICY */
	pg_atomic_uint32 panic;

	uint32		chunk_pages;
	uint32		budget_pages;
	int			nslots;
	int			nframes;
	TimestampTz reset;
	pg_atomic_uint64 counters[COSCAN_COUNTERS];

	CoscanFrameInfo *frames;
	CoscanSlot *slots;
} CoscanShared;

#define COSCAN_NO_POLICY UINT32_MAX

extern CoscanShared *coscan;	/* NULL unless preloaded */

/* Settings. */
extern bool coscan_enabled;
extern int	coscan_policy;
extern int	coscan_min_table_size;
extern int	coscan_buffer_size;
extern int	coscan_chunk_size;
extern int	coscan_max_scans;
extern bool coscan_parallel;
extern bool coscan_always;
extern char *coscan_trace;
extern const struct config_enum_entry *coscan_policies;

static inline void
coscan_count(CoscanCounter counter, uint64 by)
{
	pg_atomic_fetch_add_u64(&coscan->counters[counter], by);
}

static inline bool
coscan_epoch_serves(uint64 epoch)
{
	return (epoch & 1) != 0;
}

extern BlockNumber coscan_threshold(void);
extern uint32 coscan_budget_pages(void);
extern void coscan_plan_init(void);
extern void coscan_scan_init(void);
extern void coscan_lease_init(void);
extern PGDLLEXPORT void coscan_fetcher_main(Datum arg);

/* lease.c */
typedef struct CoscanLease CoscanLease;

/* The facts needed to take chunks from a slot; in shared memory for a parallel scan. */
typedef struct CoscanTicket
{
	int			slot;			/* -1: none */
	uint32		generation;
	uint64		epoch;
} CoscanTicket;

typedef enum CoscanTaken
{
	TAKEN_CHUNK,
	TAKEN_ALL,					/* no chunk is left */
	TAKEN_ALONE					/* the fetcher has given this scan up */
} CoscanTaken;

typedef struct CoscanChunk
{
	uint32		chunk;
	int			mailbox;
	uint32		source;
} CoscanChunk;

struct RelationData;
extern bool coscan_is_scanned(const RelFileNode *file);
extern CoscanLease *coscan_lease_take(struct RelationData *relation, BlockNumber nblocks, uint32 chunks,
									  uint32 first, uint32 nmailboxes, CoscanTicket *ticket);
extern void coscan_lease_return(CoscanLease *lease);
extern CoscanTaken coscan_take(const CoscanTicket *ticket, CoscanChunk *chunk, uint32 *waits,
							   uint64 *wait_us);
extern void coscan_done(const CoscanTicket *ticket, const CoscanChunk *chunk, bool missed);

/* cached.c */
extern bool coscan_is_cached(const RelFileNode *file, BlockNumber block);
extern bool coscan_seems_cached(const RelFileNode *file, BlockNumber first, BlockNumber end, uint32 samples);

/* pages.c */
extern void coscan_pages_init(void);
extern void coscan_pages_announce(const RelFileNode *file, bool permanent, BlockNumber nblocks);
extern void coscan_pages_open(uint32 table, RelFileNode file);
extern void coscan_pages_close(uint32 table);
extern void coscan_pages_missed(const RelFileNode *file);
extern void coscan_pages_load(uint64 load, uint32 table, uint32 chunk, uint32 frame);
extern bool coscan_pages_reading(void);
extern bool coscan_pages_read_on(uint64 *done, bool *read);
extern void coscan_pages_delivered(uint32 frame);
extern void coscan_pages_unpin(uint32 frame);
extern void coscan_pages_evict(uint32 frame);
extern void coscan_pages_evict_all(void);
extern int	coscan_pages_pinned(void);
extern int	coscan_pages_yield(void);

#endif
