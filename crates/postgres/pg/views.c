/*
 * The functions behind the views, and functions with side effects.
 */
#include "coscan.h"

#include "catalog/pg_type.h"
#include "fmgr.h"
#include "funcapi.h"
#include "utils/builtins.h"

PG_FUNCTION_INFO_V1(coscan_scans);
PG_FUNCTION_INFO_V1(coscan_chunks);
PG_FUNCTION_INFO_V1(coscan_stats);
PG_FUNCTION_INFO_V1(coscan_stats_reset);
PG_FUNCTION_INFO_V1(coscan_switch_policy);
PG_FUNCTION_INFO_V1(coscan_inject_panic);

static void
require_preload(void)
{
	if (coscan == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("coscan is not running"),
				 errhint("Add coscan to shared_preload_libraries and restart the server.")));
}

Datum
coscan_scans(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	require_preload();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < coscan->nslots; i++)
	{
		CoscanSlot *slot = &coscan->slots[i];
		uint32		forced = pg_atomic_read_u32(&coscan->forced_policy);
		Datum		values[13];
		bool		nulls[13] = {false};

		if (pg_atomic_read_u32(&slot->state) != SLOT_ACTIVE)
			continue;
		values[0] = Int32GetDatum(slot->pid);
		values[1] = ObjectIdGetDatum(slot->database);
		values[2] = ObjectIdGetDatum(slot->relid);
		values[3] = CStringGetTextDatum(coscan_policies[forced == COSCAN_NO_POLICY ? slot->policy : forced].name);
		values[4] = TimestampTzGetDatum(slot->started);
		values[5] = Int64GetDatum(slot->chunks);
		values[6] = Int64GetDatum(pg_atomic_read_u32(&slot->done));
		values[7] = Int64GetDatum(pg_atomic_read_u32(&slot->from[0]));
		values[8] = Int64GetDatum(pg_atomic_read_u32(&slot->from[1]));
		values[9] = Int64GetDatum(pg_atomic_read_u32(&slot->from[2]));
		values[10] = Int64GetDatum(pg_atomic_read_u32(&slot->waits));
		values[11] = BoolGetDatum(pg_atomic_read_u32(&slot->waiting) > 0);
		values[12] = BoolGetDatum(pg_atomic_read_u32(&slot->failed) > 0 ||
								  pg_atomic_read_u64(&coscan->epoch) != slot->epoch);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
coscan_chunks(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *result = (ReturnSetInfo *) fcinfo->resultinfo;

	require_preload();
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < coscan->nframes; i++)
	{
		CoscanFrameInfo info = coscan->frames[i];
		Datum		values[6];
		bool		nulls[6] = {false};

		if (!OidIsValid(info.relation))
			continue;
		values[0] = ObjectIdGetDatum(info.database);
		values[1] = ObjectIdGetDatum(info.relation);
		values[2] = Int64GetDatum(info.chunk);
		values[3] = Int32GetDatum(info.pages);
		values[4] = BoolGetDatum(info.loaded);
		values[5] = Int64GetDatum(info.deliveries);
		tuplestore_putvalues(result->setResult, result->setDesc, values, nulls);
	}
	return (Datum) 0;
}

Datum
coscan_stats(PG_FUNCTION_ARGS)
{
	TupleDesc	desc;
	Datum		values[COSCAN_COUNTERS + 5];
	bool		nulls[COSCAN_COUNTERS + 5] = {false};
	int			n = 0;

	require_preload();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	for (int i = 0; i < COSCAN_COUNTERS; i++)
	{
		uint64		counter = pg_atomic_read_u64(&coscan->counters[i]);

		/* Nanoseconds become milliseconds, as in other statistics. */
		values[n++] = i == COUNT_DECISION_NS ? Float8GetDatum(counter / 1e6) : Int64GetDatum(counter);
	}
	values[n++] = Int64GetDatum((int64) coscan->budget_pages * BLCKSZ);
	values[n++] = Int64GetDatum((int64) coscan->chunk_pages * BLCKSZ);
	values[n] = Int32GetDatum(coscan->fetcher_pid);
	nulls[n++] = coscan->fetcher_pid == 0;
	if (pg_atomic_read_u32(&coscan->forced_policy) == COSCAN_NO_POLICY)
		nulls[n++] = true;
	else
		values[n++] = CStringGetTextDatum(coscan_policies[pg_atomic_read_u32(&coscan->forced_policy)].name);
	values[n] = TimestampTzGetDatum(coscan->reset);
	nulls[n++] = coscan->reset == 0;
	Assert(n == lengthof(values));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc), values, nulls));
}

Datum
coscan_stats_reset(PG_FUNCTION_ARGS)
{
	require_preload();
	for (int i = 0; i < COSCAN_COUNTERS; i++)
		pg_atomic_write_u64(&coscan->counters[i], 0);
	coscan->reset = GetCurrentTimestamp();
	PG_RETURN_VOID();
}

Datum
coscan_switch_policy(PG_FUNCTION_ARGS)
{
	uint32		policy = COSCAN_NO_POLICY;

	require_preload();
	if (!PG_ARGISNULL(0))
	{
		char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));

		for (uint32 i = 0; coscan_policies[i].name != NULL; i++)
			if (strcmp(coscan_policies[i].name, name) == 0)
				policy = i;
		if (policy == COSCAN_NO_POLICY)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("there is no coscan policy \"%s\"", name),
					 errhint("SELECT enumvals FROM pg_settings WHERE name = 'coscan.policy'")));
	}
	pg_atomic_write_u32(&coscan->forced_policy, policy);
	if (coscan_epoch_serves(pg_atomic_read_u64(&coscan->epoch)))
		SetLatch(coscan->fetcher_latch);
	PG_RETURN_VOID();
}

Datum
coscan_inject_panic(PG_FUNCTION_ARGS)
{
	require_preload();
	pg_atomic_write_u32(&coscan->panic, 1);
	if (coscan_epoch_serves(pg_atomic_read_u64(&coscan->epoch)))
		SetLatch(coscan->fetcher_latch);
	PG_RETURN_VOID();
}
