/*
 * EXPLAIN of a cooperative scan: the policy, and with ANALYZE the origins of its chunks.
 */
#include "coscan.h"

#include "scan.h"

static const char *const labels[] = {"Read", "Cached", "Shared", "Alone", "Waits"};

void
coscan_explain(CustomScanState *node, List *ancestors, ExplainState *es)
{
	CoscanScanState *state = (CoscanScanState *) node;
	uint64		counts[SCAN_COUNTS];
	uint32		forced = pg_atomic_read_u32(&coscan->forced_policy);
	uint32		policy = forced == COSCAN_NO_POLICY ? coscan_policy : forced;

	memcpy(counts, state->totals, sizeof(counts));
	if (state->progress != NULL && !state->shared)
	{
		for (int i = 0; i < SCAN_COUNTS; i++)
			counts[i] += pg_atomic_read_u64(&state->progress->counts[i]);
		policy = state->progress->policy;
	}
	else if (state->used)
		policy = state->policy;
	ExplainPropertyText("Policy", coscan_policies[policy].name, es);
	if (!es->analyze)
		return;
	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		appendStringInfoSpaces(es->str, es->indent * 2);
		appendStringInfo(es->str, "Chunks: read=" UINT64_FORMAT " cached=" UINT64_FORMAT " shared=" UINT64_FORMAT
						 " alone=" UINT64_FORMAT " waits=" UINT64_FORMAT,
						 counts[SCAN_READ], counts[SCAN_CACHED], counts[SCAN_SHARED], counts[SCAN_ALONE],
						 counts[SCAN_WAITS]);
		if (es->timing)
			appendStringInfo(es->str, " waited=%.3f ms", counts[SCAN_WAIT_US] / 1000.0);
		appendStringInfoChar(es->str, '\n');
		return;
	}
	for (int i = 0; i < lengthof(labels); i++)
	{
		char		label[32];

		snprintf(label, sizeof(label), i == SCAN_WAITS ? "Chunk %s" : "Chunks %s", labels[i]);
		ExplainPropertyInteger(label, NULL, counts[i], es);
	}
	if (es->timing)
		ExplainPropertyFloat("Waited", "ms", counts[SCAN_WAIT_US] / 1000.0, 3, es);
}
