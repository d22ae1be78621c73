/*
 * Look-ups in shared buffers, without a use of the pages.
 */
#include "coscan.h"

#include "common/relpath.h"
#include "storage/buf_internals.h"

bool
coscan_is_cached(const RelFileNode *file, BlockNumber block)
{
	BufferTag	tag;
	uint32		hash;
	LWLock	   *lock;
	int			found;

	INIT_BUFFERTAG(tag, *file, MAIN_FORKNUM, block);
	hash = BufTableHashCode(&tag);
	lock = BufMappingPartitionLock(hash);
	LWLockAcquire(lock, LW_SHARED);
	found = BufTableLookup(&tag, hash);
	LWLockRelease(lock);
	return found >= 0;
}

/* True if all sampled pages, at even distances, are in shared buffers. */
bool
coscan_seems_cached(const RelFileNode *file, BlockNumber first, BlockNumber end, uint32 samples)
{
	BlockNumber step = Max(1, (end - first) / samples);

	for (BlockNumber block = first; block < end; block += step)
		if (!coscan_is_cached(file, block))
			return false;
	return true;
}
