/*
 * The choice of sequential scans that become cooperative.
 *
 * The finished plan is changed, not its paths. So the planner makes the same choices as without coscan, including
 * reparameterised paths, partitions and parallel plans, and every condition can be checked in the whole statement.
 * A scan keeps its targets, conditions, costs and its place in parallel plans.
 */
#include "coscan.h"

#include "access/heapam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "nodes/makefuncs.h"
#include "nodes/plannodes.h"
#include "optimizer/planner.h"
#include "parser/parsetree.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "scan.h"

static planner_hook_type previous_planner = NULL;

/* Facts about the nodes above a node that matter to its scans. */
typedef struct Above
{
	bool		limit;			/* few rows may be wanted: reading ahead would be wasted */
	bool		ties;			/* the order of equal rows is visible */
} Above;

static Plan *convert(PlannedStmt *stmt, Plan *plan, Above above);

BlockNumber
coscan_threshold(void)
{
	return coscan_min_table_size < 0 ? NBuffers / 4 : coscan_min_table_size;
}

/* True if the statement locks or changes rows of the range table entry. */
static bool
is_modified(PlannedStmt *stmt, Index rti)
{
	ListCell   *lc;

	if (list_member_int(stmt->resultRelations, rti))
		return true;
	foreach(lc, stmt->rowMarks)
	{
		PlanRowMark *mark = lfirst_node(PlanRowMark, lc);

		if (mark->rti == rti && RowMarkRequiresRowShareLock(mark->markType))
			return true;
	}
	return false;
}

static bool
is_big_heap(Oid relid)
{
	Relation	relation = table_open(relid, NoLock);	/* locked since the statement was analyzed */
	bool		result;

	result = relation->rd_tableam == GetHeapamTableAmRoutine() &&
		(relation->rd_rel->relkind == RELKIND_RELATION || relation->rd_rel->relkind == RELKIND_MATVIEW) &&
		relation->rd_rel->relpersistence != RELPERSISTENCE_TEMP &&
		!IsCatalogRelation(relation) &&
		RelationGetNumberOfBlocks(relation) >= coscan_threshold();
	table_close(relation, NoLock);
	return result;
}

static bool
is_cooperative(PlannedStmt *stmt, SeqScan *scan, Above above)
{
	Index		rti = scan->scan.scanrelid;
	RangeTblEntry *rte = rt_fetch(rti, stmt->rtable);

	if (above.limit || above.ties)
		return false;
	if (scan->scan.plan.parallel_aware && !coscan_parallel)
		return false;
	return rte->rtekind == RTE_RELATION && rte->tablesample == NULL &&
		!is_modified(stmt, rti) && is_big_heap(rte->relid);
}

static Plan *
cooperative(SeqScan *scan)
{
	CustomScan *custom = makeNode(CustomScan);

	custom->scan = scan->scan;
	NodeSetTag(custom, T_CustomScan);
	custom->flags = CUSTOMPATH_SUPPORT_PROJECTION;
	custom->custom_relids = bms_make_singleton(scan->scan.scanrelid);
	custom->methods = &coscan_plan_methods;
	return (Plan *) custom;
}

static void
convert_list(PlannedStmt *stmt, List *plans, Above above)
{
	ListCell   *lc;

	foreach(lc, plans)
		lfirst(lc) = convert(stmt, (Plan *) lfirst(lc), above);
}

static Plan *
convert(PlannedStmt *stmt, Plan *plan, Above above)
{
	if (plan == NULL)
		return NULL;
	check_stack_depth();
	switch (nodeTag(plan))
	{
		case T_SeqScan:
			return is_cooperative(stmt, (SeqScan *) plan, above) ? cooperative((SeqScan *) plan) : plan;
		case T_Limit:
			above.limit = true;
			above.ties |= ((Limit *) plan)->limitOption == LIMIT_OPTION_WITH_TIES;
			break;
		case T_Sort:
		case T_IncrementalSort:
		case T_Agg:
		case T_Hash:
			/* These read everything below them, even if few of their rows are wanted. */
			above.limit = false;
			break;
		case T_Append:
			convert_list(stmt, ((Append *) plan)->appendplans, above);
			break;
		case T_MergeAppend:
			convert_list(stmt, ((MergeAppend *) plan)->mergeplans, above);
			break;
		case T_SubqueryScan:
			((SubqueryScan *) plan)->subplan = convert(stmt, ((SubqueryScan *) plan)->subplan, above);
			break;
		case T_CustomScan:
			convert_list(stmt, ((CustomScan *) plan)->custom_plans, above);
			break;
		default:
			break;
	}
	plan->lefttree = convert(stmt, plan->lefttree, above);
	plan->righttree = convert(stmt, plan->righttree, above);
	return plan;
}

static PlannedStmt *
plan_statement(Query *parse, const char *query_string, int cursor_options, ParamListInfo params)
{
	PlannedStmt *stmt = previous_planner ?
		previous_planner(parse, query_string, cursor_options, params) :
		standard_planner(parse, query_string, cursor_options, params);
	const int	cursor = CURSOR_OPT_SCROLL | CURSOR_OPT_HOLD | CURSOR_OPT_BINARY | CURSOR_OPT_FAST_PLAN;
	Above		nothing = {false, false};

	/* Excludes cursors: they move back and forth, and clients fetch from them in small steps. */
	if (coscan_enabled && coscan->budget_pages > 0 && (cursor_options & cursor) == 0)
	{
		stmt->planTree = convert(stmt, stmt->planTree, nothing);
		convert_list(stmt, stmt->subplans, nothing);
	}
	return stmt;
}

void
coscan_plan_init(void)
{
	previous_planner = planner_hook;
	planner_hook = plan_statement;
}
