//! A case: tables, settings and queries as plain data. It runs in plain DataFusion and with cooperative
//! scans.

use std::time::Duration;

use datafusion::common::Result;
use datafusion::prelude::SessionContext;

use crate::answer::{Answer, Difference, Kind, compare};
use crate::data::{self, Database};
use crate::dice::Dice;
use crate::odd::Odd;
use crate::query::{self, Form, Query, Statement, Test};
use crate::settings::Settings;
use crate::shapes::Shapes;
use crate::world::{SESSIONS, World, ask};

/// Interval of policy changes during concurrent queries; most changes fall within a query.
const POLICY_CHANGES_AFTER: Duration = Duration::from_micros(500);

/// The case of a seed.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) database: Database,
    pub(crate) settings: Settings,
    pub(crate) tests: Vec<Test>,
}

/// Counts of a campaign.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Queries that ran on both sides.
    pub queries: u64,
    /// Queries that plain DataFusion refused or at which it failed.
    pub refused: u64,
    /// Queries to which plain DataFusion gave several answers, which therefore prove nothing.
    pub undetermined: u64,
    /// Seeds whose tables could not be made.
    pub without_tables: u64,
}

/// A query with a wrong answer.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) difference: Difference,
    /// The query, by its position; `None` if the engine does not come to rest.
    pub(crate) test: Option<usize>,
    /// Whether it ran concurrently with the others.
    pub(crate) together: bool,
    /// The buffer at the end, in bytes.
    pub(crate) buffer: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: Tally) {
        self.queries += other.queries;
        self.refused += other.refused;
        self.undetermined += other.undetermined;
        self.without_tables += other.without_tables;
    }
}

impl Case {
    pub(crate) fn draw(seed: u64, shapes: &Shapes) -> Self {
        let mut dice = Dice::new(seed);
        let database = data::draw(&mut dice.fork(), shapes);
        let mut settings = Settings::draw(&mut dice.fork(), shapes);
        let tests = dice.between(4, 8);
        let panels = if settings.together && dice.one_in(2) { dice.between(2, tests) } else { 0 };
        let mut tests: Vec<Test> =
            (panels..tests).map(|_| query::draw(&mut dice.fork(), &database, shapes)).collect();
        tests.extend(query::draw_panels(&mut dice.fork(), &database, shapes, panels));
        settings.odd = (dice.one_in(6) && shapes.providers).then(|| Odd::draw(&mut dice.fork()));
        Case { database, settings, tests }
    }

    fn statements(&self) -> Vec<Statement> {
        self.tests.iter().enumerate().map(|(at, test)| test.statement(&format!("p{at}"))).collect()
    }

    /// Runs all queries on both sides. The outer error means that there was nothing to compare.
    pub(crate) async fn play(&self, tally: &mut Tally) -> Result<Result<(), Box<Found>>> {
        let world = World::new(&self.database, &self.settings).await?;
        let found = match self.play_in(&world, tally).await {
            Ok(()) => world.comes_to_rest().await.map_err(|difference| {
                Box::new(Found {
                    difference,
                    test: None,
                    together: false,
                    buffer: world.engine.usage().budget,
                })
            }),
            Err(found) => Err(found),
        };
        Ok(found)
    }

    async fn play_in(&self, world: &World<'_>, tally: &mut Tally) -> Result<(), Box<Found>> {
        let statements = self.statements();
        let mut expected = Vec::new();
        for (test, statement) in self.tests.iter().zip(&statements) {
            let reference = reference(test, statement);
            let mut answer = ask(&world.plain, &reference).await.0;
            if test.is_sample() {
                // A query that fails only with its limit counts as refused.
                let limited = ask(&world.plain, statement).await.0;
                answer = if matches!(limited, Answer::Rows(_)) { answer } else { limited };
            }
            tally.queries += 1;
            tally.refused += u64::from(!matches!(answer, Answer::Rows(_)));
            expected.push(answer);
        }
        for at in 0..self.tests.len() {
            world.switch_to(self.settings.policy(at));
            let found = world.ask(0, &statements[at]).await;
            self.judge(world, at, &expected[at], &found, false, tally).await?;
        }
        if self.settings.together {
            for (asked, found) in self.all_at_once(world, &statements).await.iter().enumerate() {
                let at = asked / SESSIONS;
                self.judge(world, at, &expected[at], found, true, tally).await?;
            }
        }
        Ok(())
    }

    /// Runs all statements in every session, and changes the policy meanwhile if there are several.
    async fn all_at_once(&self, world: &World<'_>, statements: &[Statement]) -> Vec<Answer> {
        let in_sessions = |statement| (0..SESSIONS).map(move |session| world.ask(session, statement));
        let asked = statements.iter().flat_map(in_sessions);
        let changes = async {
            for policy in self.settings.policies.iter().skip(1) {
                tokio::time::sleep(POLICY_CHANGES_AFTER).await;
                world.switch_to(*policy);
            }
        };
        futures::future::join(futures::future::join_all(asked), changes).await.0
    }

    /// Checks that the answer is right, or that plain DataFusion's answer varies.
    async fn judge(
        &self,
        world: &World<'_>,
        at: usize,
        expected: &Answer,
        found: &Answer,
        together: bool,
        tally: &mut Tally,
    ) -> Result<(), Box<Found>> {
        let test = &self.tests[at];
        let Err(difference) = compare(test, expected, found) else { return Ok(()) };
        let may_be_chance =
            matches!(difference.kind, Kind::Rows | Kind::Order | Kind::Error | Kind::NoError | Kind::Schema);
        let is_chance = may_be_chance
            && (self.is_known_fault(test, difference.kind)
                || !self.determined(world, at, expected, found).await);
        if expected.is_broken() || is_chance {
            tally.undetermined += 1;
            return Ok(());
        }
        let buffer = world.engine.usage().budget;
        Err(Box::new(Found { difference, test: Some(at), together, buffer }))
    }

    /// Returns whether the difference may come from a known fault of DataFusion:
    /// - A merge by an order gives each partition a top-k without the columns that are constant in it, as in
    ///   the branches of a union. But the partitions share the threshold, so rows of one branch are dropped
    ///   for rows of another.
    /// - A top-k over nested values leaves out later rows that are not smaller, with nulls first within
    ///   nested values, whatever the ORDER BY says.
    /// - Groups by sets declare keys without nulls, like their columns, and cannot be spilled with the nulls
    ///   that sets add.
    /// - The order of a query that only skips rows is dropped if nothing above needs an order. Then the
    ///   skipped rows vary.
    /// - AND does not guard an operand where more than a fifth of a batch passes, nor after a NOT, which
    ///   turns it into OR.
    /// - Statistics in place of an aggregation are never null. Whether a join above declares this depends on
    ///   whether the join was built again since.
    /// - A plan with parameters of unknown types may have other string types than one with values.
    fn is_known_fault(&self, test: &Test, kind: Kind) -> bool {
        test.may_be_top_k() && test.contains("UNION")
            || matches!(kind, Kind::Error) && self.settings.refusals.is_some() && test.has_grouping_sets()
            || test.may_be_top_k() && self.database.has_nested()
            || test.only_skips() && test.contains("ORDER BY")
            || matches!(kind, Kind::Error | Kind::NoError) && test.contains(" <> 0 AND ")
            || matches!(kind, Kind::Schema) && test.contains("JOIN") && test.has_extreme()
            || matches!(kind, Kind::Schema) && test.form == Form::Prepared
    }

    /// Returns whether plain DataFusion repeats its answer, also with other settings.
    async fn determined(&self, world: &World<'_>, at: usize, expected: &Answer, found: &Answer) -> bool {
        let form = if self.tests[at].is_sample() { Form::Plain } else { self.tests[at].form };
        let whole = Test { form, ..self.tests[at].clone() };
        let statement = reference(&self.tests[at], &whole.statement("again"));
        let Ok(usual) = world.other(Settings::plain_usual).await else { return false };
        for session in [&world.plain, &usual, &world.plain, &usual] {
            let again = ask(session, &statement).await.0;
            if again.is_broken()
                || compare(&whole, expected, &again).is_err()
                || compare(&whole, &again, expected).is_err()
            {
                return false;
            }
        }
        match (expected, found) {
            (Answer::Rows(_), Answer::Rows(_)) => same_by_row(world, &whole, expected).await.unwrap_or(false),
            (Answer::Error(_), Answer::Rows(_)) => {
                !leaves_rows_out(&whole) && !otherwise_found(world, &whole, found).await.unwrap_or(true)
            }
            (Answer::Rows(_), Answer::Error(error)) => {
                let refused = self.settings.refusals.is_some();
                !(refused && fails_in(world, Settings::plain_sorting, &statement, error).await
                    || fails_in(world, Settings::plain_small_batches, &statement, error).await
                    || form == Form::Prepared && is_refused_prepared(world, &whole, error).await)
            }
            _ => true,
        }
    }
}

/// Returns whether a scan may leave out rows that a join or a limit does not need, so that no other part of
/// the query fails on them.
fn leaves_rows_out(test: &Test) -> bool {
    let words = [
        "JOIN",
        "IN (SELECT",
        "EXISTS",
        "INTERSECT",
        "EXCEPT",
        "= (SELECT",
        "< (SELECT",
        "> (SELECT",
        "LIMIT",
    ];
    let runs = !matches!(test.form, Form::Explained(keyword) if !keyword.contains("ANALYZE"));
    runs && words.iter().any(|word| test.contains(word))
}

/// Returns whether plain DataFusion gives the same answer with batches of one row. A CASE whose branches have
/// other types than declared gives other values if all rows of a batch take the same branch.
async fn same_by_row(world: &World<'_>, test: &Test, expected: &Answer) -> Result<bool> {
    let by_row = world.other(Settings::plain_by_row).await?;
    let again = ask(&by_row, &test.statement("again")).await.0;
    Ok(!matches!(again, Answer::Rows(_)) || compare(test, expected, &again).is_ok())
}

/// Returns whether plain DataFusion, which fails, finds this answer in another way. The ways are: row by row,
/// so that a part of a condition guards the others; conjuncts in other orders; no filters of joins.
async fn otherwise_found(world: &World<'_>, test: &Test, found: &Answer) -> Result<bool> {
    let is_found = |again: Answer| matches!(again, Answer::Rows(_)) && compare(test, &again, found).is_ok();
    let by_row = world.other(Settings::plain_by_row).await?;
    let reversed = world.other(Settings::plain_reversed).await?;
    let in_scans = world.other(Settings::plain_reversed_in_scans).await?;
    let sorting = world.other(Settings::plain_sorting).await?;
    let as_it_is = [&by_row, &reversed, &in_scans, &sorting].map(|session| (session, test.query.clone()));
    let orders = query::reordered(&test.query).into_iter().map(|query| (&by_row, query));
    for (session, query) in as_it_is.into_iter().chain(orders) {
        let other = Test { query, ..test.clone() };
        let again = ask(session, &other.statement("again")).await.0;
        // If it is broken, the question stays open.
        if again.is_broken() || is_found(again) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether plain DataFusion fails with this error, too, under these settings.
///
/// - With sort-merge joins, as in the last run of a query that was refused memory: which of several failing
///   values it meets first varies. A hash join does not read its other side if it has no row to look up, or
///   reads it with a filter. So it may miss the row at which a sort-merge join fails.
/// - With small batches: a cast of values in a dictionary also casts values that no row has after a filter,
///   unless the dictionaries of several batches were merged.
async fn fails_in(
    world: &World<'_>,
    way: impl Fn(&Settings) -> Result<SessionContext>,
    statement: &Statement,
    error: &str,
) -> bool {
    let Ok(session) = world.other(way).await else { return true };
    let again = ask(&session, statement).await.0;
    matches!(again, Answer::Error(again) if without_values(&again) == without_values(error))
}

/// Returns whether plain DataFusion also refuses the prepared statement: a parameter's type may be unknown
/// without its value.
async fn is_refused_prepared(world: &World<'_>, test: &Test, error: &str) -> bool {
    let prepared = ask(&world.plain, &test.statement("again")).await.0;
    matches!(prepared, Answer::Error(again) if again == *error)
}

/// Removes the values that an error quotes.
fn without_values(error: &str) -> String {
    error.split('\'').step_by(2).collect()
}

/// Returns the statement for plain DataFusion: for a sample, all rows, and for a prepared statement, one with
/// its values.
fn reference(test: &Test, statement: &Statement) -> Statement {
    if test.is_sample() {
        let query = Query { limit: None, ..test.query.clone() };
        return Statement { prepare: None, sql: query.to_sql() };
    }
    match statement.prepare {
        Some(_) => Statement { prepare: None, sql: test.query.to_sql() },
        None => statement.clone(),
    }
}
