//! A case: tables, settings and queries, all plain data. It is played against plain DataFusion and with cooperative
//! scans.

use std::time::Duration;

use datafusion::common::Result;

use crate::answer::{Answer, Difference, Kind, compare};
use crate::data::{self, Database};
use crate::dice::Dice;
use crate::query::{self, Form, Statement, Test};
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
        let tests: Vec<Test> = (0..tests).map(|_| query::draw(&mut dice.fork(), &database, shapes)).collect();
        settings.respect(&database, &tests);
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
        let is_chance =
            may_be_chance && (has_top_k_of_union(test) || !self.determined(world, at, expected).await);
        if expected.is_broken() || is_chance {
            tally.undetermined += 1;
            return Ok(());
        }
        let buffer = world.engine.usage().budget;
        Err(Box::new(Found { difference, test: Some(at), together, buffer }))
    }

    /// Whether plain DataFusion says the same again, and with other settings.
    async fn determined(&self, world: &World<'_>, at: usize, expected: &Answer) -> bool {
        let form = if self.tests[at].is_sample() { Form::Plain } else { self.tests[at].form };
        let whole = Test { form, ..self.tests[at].clone() };
        let statement = reference(&self.tests[at], &whole.statement("again"));
        let Ok([usual, by_row]) = world.others().await else { return false };
        let mut sessions = vec![&world.plain, &usual, &world.plain, &usual];
        if matches!(expected, Answer::Error(_)) {
            // Whether a part of a condition is evaluated that another would have kept from failing is left to
            // chance: it depends on which rows meet in a batch.
            sessions.push(&by_row);
        }
        for session in sessions {
            let again = ask(session, &statement).await.0;
            if again.is_broken()
                || compare(&whole, expected, &again).is_err()
                || compare(&whole, &again, expected).is_err()
            {
                return false;
            }
        }
        true
    }
}

/// DataFusion is at fault itself there: a merge by an order leaves each partition a top-k without what is constant in it, as in
/// the branches of a union, but the partitions share the threshold, and rows of one branch are dropped for those of another.
fn has_top_k_of_union(test: &Test) -> bool {
    test.may_be_top_k() && test.contains("UNION")
}

/// What plain DataFusion is asked: for a sample, all rows.
fn reference(test: &Test, statement: &Statement) -> Statement {
    if !test.is_sample() {
        return statement.clone();
    }
    let mut query = test.query.clone();
    query.limit = None;
    Statement { prepare: None, sql: query.to_sql() }
}
