//! A case: tables, settings and queries, all plain data. It is played against plain DataFusion and with cooperative
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

/// When queries run at once, another policy takes over after so long: while they run, mostly.
const POLICY_CHANGES_AFTER: Duration = Duration::from_micros(500);

/// What a seed is drawn into.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) database: Database,
    pub(crate) settings: Settings,
    pub(crate) tests: Vec<Test>,
}

/// What was played, in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Queries put to both sides.
    pub queries: u64,
    /// Those that plain DataFusion refused or failed at.
    pub refused: u64,
    /// Those of which plain DataFusion gave several answers, which therefore say nothing.
    pub undetermined: u64,
    /// Seeds of which the tables could not be made.
    pub without_tables: u64,
}

/// A query with a wrong answer.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) difference: Difference,
    /// The query, by its position; none if it is the engine that does not come to rest.
    pub(crate) test: Option<usize>,
    /// It ran together with the others.
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

    /// Puts all queries to both sides. The outer error says that there was nothing to compare.
    pub(crate) async fn play(&self, tally: &mut Tally) -> Result<Result<(), Box<Found>>> {
        let world = World::new(self).await?;
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
                // What fails with its limit only is refused all the same.
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

    /// Asks everything in every session, while the policy changes if there are several.
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

    /// Whether the answer is right, or plain DataFusion does not give the same answer every time.
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

    /// DataFusion is at fault itself there:
    /// - A merge by an order leaves each partition a top-k without what is constant in it, as in the branches of a union, but
    ///   the partitions share the threshold, and rows of one branch are dropped for those of another.
    /// - A top-k leaves out rows that come later and are not smaller, with nulls first within values that have parts, whatever
    ///   the order by says.
    /// - Groups of sets have keys without null, as the columns may have, and cannot be written to disk with the nulls that sets
    ///   bring.
    /// - The order of a query that skips rows and takes all others is forgotten where nothing above it needs an order: which
    ///   rows are skipped is chance.
    /// - What is guarded by AND is not where more than a fifth of a batch passes, nor after a NOT, which makes it OR.
    /// - What statistics say in place of an aggregation is never null. Whether a join above it says so depends on whether it was
    ///   made anew since.
    /// - What is planned with parameters of no known type may have texts of another kind than what is planned with values.
    fn is_known_fault(&self, test: &Test, kind: Kind) -> bool {
        test.may_be_top_k() && test.contains("UNION")
            || matches!(kind, Kind::Error) && self.settings.refusals.is_some() && test.has_grouping_sets()
            || test.may_be_top_k() && self.database.has_nested()
            || test.only_skips() && test.contains("ORDER BY")
            || matches!(kind, Kind::Error | Kind::NoError) && test.contains(" <> 0 AND ")
            || matches!(kind, Kind::Schema) && test.contains("JOIN") && test.has_extreme()
            || matches!(kind, Kind::Schema) && test.form == Form::Prepared
    }

    /// Whether plain DataFusion says the same again, and with other settings.
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

/// Whether a scan may leave out rows that a join does not want or a limit does not need, so that nothing else of the query
/// sees them and fails.
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

/// Whether plain DataFusion has the same answer if each batch is one row. A CASE whose branches have other types than it
/// claims gives other values when all rows of a batch take the same branch.
async fn same_by_row(world: &World<'_>, test: &Test, expected: &Answer) -> Result<bool> {
    let by_row = world.other(Settings::plain_by_row).await?;
    let again = ask(&by_row, &test.statement("again")).await.0;
    Ok(!matches!(again, Answer::Rows(_)) || compare(test, expected, &again).is_ok())
}

/// Whether plain DataFusion, which fails, finds this answer in another way: row by row, so that a part of a condition keeps
/// others from failing, with conjuncts in other orders, or without filters that joins find.
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
        // If it is broken, nobody can tell.
        if again.is_broken() || is_found(again) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whether plain DataFusion fails with this error, too, in this way.
///
/// - Where its joins sort, as those of a query's last run do that was refused memory: which of several values that cannot be
///   computed it meets first is chance. A join by hashing does not read its other side if it has no row to look up there, or reads
///   it with a filter, and so does not meet the row at which one that sorts fails.
/// - Where batches have a few rows: a cast of values in a dictionary casts those, too, that no row has after a filter, unless the
///   dictionaries of several batches were made one.
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

/// Whether plain DataFusion refuses it as well if it is prepared: a parameter's type may not be known without its value.
async fn is_refused_prepared(world: &World<'_>, test: &Test, error: &str) -> bool {
    let prepared = ask(&world.plain, &test.statement("again")).await.0;
    matches!(prepared, Answer::Error(again) if again == *error)
}

/// An error without the values that it quotes.
fn without_values(error: &str) -> String {
    error.split('\'').step_by(2).collect()
}

/// What plain DataFusion is asked: for a sample, all rows, and for a prepared statement, one with the values in it.
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
