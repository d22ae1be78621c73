/*
 * The fetcher's frames: chunks of pages that are read into shared buffers and kept pinned there.
 *
 * Pins are advisory. Backends read pages as usual and mostly find them in shared buffers; they read missing pages
 * themselves. So nothing is pinned on a standby, a process that needs a page exclusively gets it, and a table that
 * is completely in shared buffers is not pinned.
 */
#include "coscan.h"

#include <fcntl.h>

#include "access/xlog.h"
#include "common/relpath.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

/* Pages that are read between two checks of the slots. */
#define PIECE 32
/* After this many chunks without a miss a table counts as cached: its chunks are only sampled. */
#define CACHED_AFTER 8
#define SAMPLES 8
#define LOADS_MAX 64

typedef struct Table
{
	bool		open;
	RelFileNode file;
	uint32		hits_in_a_row;	/* chunks without a miss */
	int			nsegments;
	File	   *segments;		/* for reading ahead; 0: not opened yet, -1: cannot be opened */
} Table;

/* The announcement of a file by slots; kept as long as a table of it is open. */
typedef struct Announced
{
	RelFileNode file;
	bool		permanent;
	BlockNumber nblocks;
	int			tables;
} Announced;

typedef struct Frame
{
	ResourceOwner owner;		/* of the pins */
	BufferAccessStrategy ring;	/* the buffers that this frame reuses */
	Buffer	   *pins;
	int			npins;
} Frame;

typedef struct Load
{
	uint64		load;
	uint32		table;
	uint32		frame;
	BlockNumber next;
	BlockNumber end;
	bool		read;
} Load;

/* The fields of a ring that this file changes; the declaration is private to freelist.c. */
typedef struct RingHead
{
	BufferAccessStrategyType btype;
	int			ring_size;
} RingHead;

static Table *tables;
static uint32 ntables;
static Announced *announced;
static int	nannounced;
static Frame *frames;
static uint32 nframes;
static Load loads[LOADS_MAX];
static int	nloads;
static int	pinned;

void
coscan_pages_init(void)
{
	nannounced = coscan->nslots;
	announced = palloc0(sizeof(Announced) * nannounced);
}

static Announced *
announced_of(const RelFileNode *file)
{
	for (int i = 0; i < nannounced; i++)
		if (announced[i].nblocks > 0 && RelFileNodeEquals(announced[i].file, *file))
			return &announced[i];
	return NULL;
}

/* Announces a scan of the file, before its registration. The file has at least `nblocks` pages. */
void
coscan_pages_announce(const RelFileNode *file, bool permanent, BlockNumber nblocks)
{
	Announced  *known = announced_of(file);

	if (known != NULL)
	{
		known->nblocks = Max(known->nblocks, nblocks);
		return;
	}
	for (int i = 0; i < nannounced; i++)
		if (announced[i].nblocks == 0)
		{
			announced[i] = (Announced){*file, permanent, nblocks, 0};
			return;
		}
	elog(ERROR, "more files than slots");
}

void
coscan_pages_open(uint32 table, RelFileNode file)
{
	Announced  *known = announced_of(&file);

	if (table >= ntables)
	{
		uint32		more = Max(table + 1, ntables * 2);

		tables = tables ? repalloc(tables, sizeof(Table) * more) : palloc(sizeof(Table) * more);
		memset(tables + ntables, 0, sizeof(Table) * (more - ntables));
		ntables = more;
	}
	tables[table] = (Table){.open = true, .file = file};
	known->tables++;
}

void
coscan_pages_close(uint32 table)
{
	Table	   *t = &tables[table];
	Announced  *known = announced_of(&t->file);
	SMgrRelation smgr;

	for (int i = 0; i < t->nsegments; i++)
		if (t->segments[i] > 0)
			FileClose(t->segments[i]);
	if (t->segments)
		pfree(t->segments);
	t->open = false;
	t->segments = NULL;
	t->nsegments = 0;
	if (--known->tables > 0)
		return;
	known->nblocks = 0;
	smgr = smgropen(t->file, InvalidBackendId);
	smgrclose(smgr);
}

/* Notes that a backend had to read pages of the file itself: not all of it is in shared buffers. */
void
coscan_pages_missed(const RelFileNode *file)
{
	for (uint32 i = 0; i < ntables; i++)
		if (tables[i].open && RelFileNodeEquals(tables[i].file, *file))
			tables[i].hits_in_a_row = 0;
}

/* Asks the system to read pages from the file while other pages are being copied. */
static void
read_ahead(Table *t, BlockNumber first, BlockNumber end)
{
	while (first < end)
	{
		int			segment = first / RELSEG_SIZE;
		BlockNumber stop = Min(end, (BlockNumber) (segment + 1) * RELSEG_SIZE);

		if (segment >= t->nsegments)
		{
			t->segments = t->segments ? repalloc(t->segments, sizeof(File) * (segment + 1)) :
				palloc(sizeof(File) * (segment + 1));
			memset(t->segments + t->nsegments, 0, sizeof(File) * (segment + 1 - t->nsegments));
			t->nsegments = segment + 1;
		}
		if (t->segments[segment] == 0)
		{
			char	   *path = relpathperm(t->file, MAIN_FORKNUM);
			char	   *name = segment == 0 ? pstrdup(path) : psprintf("%s.%d", path, segment);

			t->segments[segment] = PathNameOpenFile(name, O_RDONLY | PG_BINARY);
			pfree(name);
			pfree(path);
		}
		if (t->segments[segment] > 0)
			(void) FilePrefetch(t->segments[segment], (off_t) (first % RELSEG_SIZE) * BLCKSZ,
								(stop - first) * BLCKSZ, PG_WAIT_EXTENSION);
		first = stop;
	}
}

/* Reads ahead the pages that are missing in shared buffers; returns their number. */
static BlockNumber
read_ahead_missing(Table *t, BlockNumber first, BlockNumber end)
{
	BlockNumber missing = 0;
	BlockNumber run = InvalidBlockNumber;

	for (BlockNumber block = first; block < end; block++)
	{
		bool		cached = coscan_is_cached(&t->file, block);

		if (!cached)
			missing++;
		if (!cached && run == InvalidBlockNumber)
			run = block;
		if (cached && run != InvalidBlockNumber)
		{
			read_ahead(t, run, block);
			run = InvalidBlockNumber;
		}
	}
	if (run != InvalidBlockNumber)
		read_ahead(t, run, end);
	return missing;
}

static Frame *
frame_at(uint32 frame)
{
	Frame	   *f;

	if (frame >= nframes)
	{
		uint32		more = Max(frame + 1, nframes * 2);

		frames = frames ? repalloc(frames, sizeof(Frame) * more) : palloc(sizeof(Frame) * more);
		memset(frames + nframes, 0, sizeof(Frame) * (more - nframes));
		nframes = more;
	}
	f = &frames[frame];
	if (f->owner == NULL)
	{
		f->owner = ResourceOwnerCreate(NULL, "coscan frame");
		f->pins = palloc(sizeof(Buffer) * coscan->chunk_pages);
		/*
		 * A ring as large as the frame: pages read into a frame replace the frame's previous pages, and the rest of
		 * shared buffers is not affected.
		 */
		f->ring = GetAccessStrategy(BAS_BULKWRITE);
		((RingHead *) f->ring)->btype = BAS_BULKREAD;
		((RingHead *) f->ring)->ring_size = Min(((RingHead *) f->ring)->ring_size, (int) coscan->chunk_pages);
	}
	return f;
}

static void
show_frame(uint32 frame, Table *t, uint32 chunk, uint32 pages)
{
	CoscanFrameInfo *info;

	if ((int) frame >= coscan->nframes)
		return;
	info = &coscan->frames[frame];
	info->database = t ? t->file.dbNode : InvalidOid;
	info->relation = t ? t->file.relNode : InvalidOid;
	info->chunk = chunk;
	info->pages = pages;
	info->loaded = false;
	info->deliveries = 0;
}

static void
show_loaded(uint32 frame)
{
	if ((int) frame < coscan->nframes)
		coscan->frames[frame].loaded = true;
}

/*
 * Begins to read a chunk into a frame. Nothing is read of a chunk that is cached like the previous ones. Its load too is
 * complete only after the loads before it, so that the fetcher never only turns from one decision to the next.
 */
void
coscan_pages_load(uint64 load, uint32 table, uint32 chunk, uint32 frame)
{
	Table	   *t = &tables[table];
	BlockNumber first = chunk * coscan->chunk_pages;
	BlockNumber end = Min(first + coscan->chunk_pages, announced_of(&t->file)->nblocks);
	BlockNumber next = first;
	BlockNumber missing = 0;

	frame_at(frame);
	show_frame(frame, t, chunk, end - first);
	if (t->hits_in_a_row >= CACHED_AFTER && coscan_seems_cached(&t->file, first, end, SAMPLES))
		next = end;
	else
	{
		missing = read_ahead_missing(t, first, end);
		t->hits_in_a_row = missing == 0 ? t->hits_in_a_row + 1 : 0;
	}
	coscan_count(COUNT_PAGES_READ, missing);
	coscan_count(COUNT_PAGES_HIT, end - first - missing);
	if (nloads == LOADS_MAX)
		elog(ERROR, "more loads in flight than the manager may issue");
	loads[nloads++] = (Load){load, table, frame, next, end, missing > 0};
}

bool
coscan_pages_reading(void)
{
	return nloads > 0;
}

static void
forget_load(int at)
{
	memmove(&loads[at], &loads[at + 1], sizeof(Load) * (nloads - at - 1));
	nloads--;
}

static void
read_pages(Load *load, BlockNumber end)
{
	Frame	   *f = &frames[load->frame];
	Announced  *file = announced_of(&tables[load->table].file);
	bool		keep = !RecoveryInProgress();

	for (; load->next < end; load->next++)
	{
		Buffer		buffer = ReadBufferWithoutRelcache(file->file, MAIN_FORKNUM, load->next, RBM_NORMAL,
													   f->ring, file->permanent);

		if (keep)
		{
			f->pins[f->npins++] = buffer;
			pinned++;
		}
		else
			ReleaseBuffer(buffer);
	}
}

/*
 * Reads some pages of the oldest load. True if it is complete. A page that cannot be read is left to the
 * backends: a backend that needs it gets the error.
 */
bool
coscan_pages_read_on(uint64 *done, bool *read)
{
	Load	   *load = &loads[0];
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	CurrentResourceOwner = frames[load->frame].owner;
	PG_TRY();
	{
		read_pages(load, Min(load->next + PIECE, load->end));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		HOLD_INTERRUPTS();
		EmitErrorReport();
		FlushErrorState();
		LWLockReleaseAll();
		AbortBufferIO();
		UnlockBuffers();
		coscan_pages_unpin(load->frame);
		load->next = load->end;
		load->read = true;
		coscan_count(COUNT_LOAD_ERRORS, 1);
		RESUME_INTERRUPTS();
	}
	PG_END_TRY();
	CurrentResourceOwner = owner;
	if (load->next < load->end)
		return false;
	*done = load->load;
	*read = load->read;
	show_loaded(load->frame);
	forget_load(0);
	return true;
}

/* Unpins a frame's pages, including those of a read that failed half way. */
void
coscan_pages_unpin(uint32 frame)
{
	Frame	   *f = &frames[frame];

	if (f->owner == NULL)
		return;
	ResourceOwnerRelease(f->owner, RESOURCE_RELEASE_BEFORE_LOCKS, false, false);
	pinned -= f->npins;
	f->npins = 0;
}

void
coscan_pages_evict(uint32 frame)
{
	for (int i = nloads - 1; i >= 0; i--)
		if (loads[i].frame == frame)
			forget_load(i);
	coscan_pages_unpin(frame);
	show_frame(frame, NULL, 0, 0);
}

void
coscan_pages_evict_all(void)
{
	LWLockReleaseAll();
	AbortBufferIO();
	UnlockBuffers();
	for (uint32 i = 0; i < nframes; i++)
		coscan_pages_evict(i);
}

void
coscan_pages_delivered(uint32 frame)
{
	if ((int) frame < coscan->nframes)
		coscan->frames[frame].deliveries++;
}

int
coscan_pages_pinned(void)
{
	return pinned;
}

/*
 * Releases frames with a page that a process waits to lock for cleanup, as VACUUM does. Returns their number.
 */
int
coscan_pages_yield(void)
{
	int			yielded = 0;

	for (uint32 i = 0; pinned > 0 && i < nframes; i++)
	{
		Frame	   *f = &frames[i];

		for (int pin = 0; pin < f->npins; pin++)
		{
			BufferDesc *buffer = GetBufferDescriptor(f->pins[pin] - 1);

			if (pg_atomic_read_u32(&buffer->state) & BM_PIN_COUNT_WAITER)
			{
				yielded++;
				coscan_pages_unpin(i);
				break;
			}
		}
	}
	return yielded;
}
