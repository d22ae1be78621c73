//! The event loop: time jumps from event to event.

use std::collections::BTreeMap;

use coscan_media::{
    Action, ConfigError, DriveId, Event, Fragment, FragmentError, FragmentId, Instant, Reason, Scheduler,
    Span, UserId,
};

use super::{BoxedPolicy, ListNo, MediaOutcome, MediaStart, MediaWorld};

/// The reason for a failed run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MediaRunError {
    /// The scheduler could not be set up.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// An invalid fragment.
    #[error(transparent)]
    Fragment(#[from] FragmentError),
    /// A subquery can never be ready.
    #[error("{list}: {reason}")]
    Unready {
        /// The list.
        list: ListNo,
        /// The reason.
        reason: Reason,
    },
    /// No event is left and queries are unfinished.
    #[error("nothing happens any more and {0} queries are left: give the cache more room")]
    Stuck(usize),
}

/// Plays a world to its end.
///
/// # Errors
/// If settings are invalid, or a query cannot be answered.
pub fn run(world: &MediaWorld, policy: BoxedPolicy) -> Result<MediaOutcome, MediaRunError> {
    let mut scheduler = Scheduler::new(world.config, world.library.clone(), policy)?;
    for fragment in &world.fragments {
        scheduler.add_fragment(*fragment)?;
    }
    Host::new(world, scheduler).run()
}

/// Something that will happen.
#[derive(Debug)]
enum Happening {
    Drive(Event),
    Start { user: usize },
    Processed { list: ListNo, subquery: u32, bytes: u64 },
    Deadline,
}

/// A list in progress.
struct Open {
    user: usize,
}

struct Host<'a> {
    world: &'a MediaWorld,
    scheduler: Scheduler,
    fragments: BTreeMap<FragmentId, Fragment>,
    now: Instant,
    agenda: BTreeMap<(Instant, u64), Happening>,
    next: u64,
    lists: BTreeMap<ListNo, Open>,
    submitted: u64,
    /// For each user: the next query, its next list, and the start of the query.
    at: Vec<(usize, usize, Instant)>,
    waiting_for_first: Vec<(u64, usize)>,
    first_bytes: u64,
    processor_free: Instant,
    arms_free: Vec<Instant>,
    left: usize,
    outcome: MediaOutcome,
}

fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

impl<'a> Host<'a> {
    fn new(world: &'a MediaWorld, scheduler: Scheduler) -> Self {
        Host {
            world,
            scheduler,
            fragments: world.fragments.iter().map(|fragment| (fragment.id, *fragment)).collect(),
            now: Instant::ZERO,
            agenda: BTreeMap::new(),
            next: 0,
            lists: BTreeMap::new(),
            submitted: 0,
            at: vec![(0, 0, Instant::ZERO); world.users.len()],
            waiting_for_first: Vec::new(),
            first_bytes: 0,
            processor_free: Instant::ZERO,
            arms_free: vec![Instant::ZERO; world.library.arms() as usize],
            left: world.users.iter().map(|user| user.queries.len()).sum(),
            outcome: MediaOutcome {
                latencies_s: vec![Vec::new(); world.users.len()],
                ..MediaOutcome::default()
            },
        }
    }

    fn plan(&mut self, at: Instant, what: Happening) {
        self.next += 1;
        self.agenda.insert((at, self.next), what);
    }

    fn run(mut self) -> Result<MediaOutcome, MediaRunError> {
        for (user, of) in self.world.users.iter().enumerate() {
            match of.start {
                MediaStart::At(span) => self.plan(Instant::ZERO + span, Happening::Start { user }),
                MediaStart::AfterFirst { bytes } => self.waiting_for_first.push((bytes, user)),
            }
        }
        let mut deadline: Option<Instant> = None;
        while self.left > 0 {
            // A deadline is kept beside the agenda: it moves with every event.
            let first = self.agenda.first_key_value().map(|((at, _), _)| *at);
            let what = match deadline {
                Some(at) if first.is_none_or(|first| at < first) => {
                    self.now = self.now.max(at);
                    Happening::Deadline
                }
                _ => {
                    let Some(((at, _), what)) = self.agenda.pop_first() else {
                        return Err(MediaRunError::Stuck(self.left));
                    };
                    self.now = self.now.max(at);
                    what
                }
            };
            self.happens(what)?;
            deadline = self.scheduler.next_deadline().filter(|at| *at > self.now);
        }
        self.outcome.total_s = seconds(self.now.since(Instant::ZERO));
        let totals = self.scheduler.totals();
        (self.outcome.bytes, self.outcome.mounts, self.outcome.fetches) =
            (totals.bytes, totals.switches, totals.fetches);
        Ok(self.outcome)
    }

    fn happens(&mut self, what: Happening) -> Result<(), MediaRunError> {
        match what {
            Happening::Drive(event) => self.tell(event),
            Happening::Deadline => self.tell(Event::Tick),
            Happening::Start { user } => {
                self.at[user].2 = self.now;
                self.submit(user)
            }
            Happening::Processed { list, subquery, bytes } => {
                if self.lists.get(&list).is_some_and(|open| open.user == 0) {
                    self.first_bytes += bytes;
                    self.start_those_behind_the_first();
                }
                self.tell(Event::Done { list, subqueries: vec![subquery] })
            }
        }
    }

    fn start_those_behind_the_first(&mut self) {
        let passed = self.first_bytes;
        let (start, wait) = std::mem::take(&mut self.waiting_for_first)
            .into_iter()
            .partition::<Vec<_>, _>(|(bytes, _)| *bytes <= passed);
        self.waiting_for_first = wait;
        for (_, user) in start {
            self.plan(self.now, Happening::Start { user });
        }
    }

    /// Submits the user's next list, or starts the user's next query.
    fn submit(&mut self, user: usize) -> Result<(), MediaRunError> {
        loop {
            let (query, list, began) = self.at[user];
            let Some(of) = self.world.users[user].queries.get(query) else { return Ok(()) };
            let Some(subqueries) = of.lists.get(list) else {
                self.outcome.latencies_s[user].push(seconds(self.now.since(began)));
                self.left -= 1;
                self.at[user] = (query + 1, 0, self.now);
                continue;
            };
            self.at[user].1 += 1;
            self.submitted += 1;
            let list = coscan_media::ListId(self.submitted);
            self.lists.insert(list, Open { user });
            let subqueries = subqueries.clone();
            return self.tell(Event::Submit { list, user: UserId(user as u64), subqueries });
        }
    }

    fn tell(&mut self, event: Event) -> Result<(), MediaRunError> {
        let mut actions = Vec::new();
        self.outcome.events += 1;
        self.scheduler.handle(self.now, event, &mut actions);
        for action in actions {
            match action {
                Action::Switch { drive, .. } => self.switch(drive),
                Action::Fetch { drive, fragment, .. } => self.fetch(drive, fragment),
                Action::Ready { list, subqueries } => self.process(list, &subqueries),
                Action::Unready { list, reason, .. } => return Err(MediaRunError::Unready { list, reason }),
                Action::Evict { .. } => {}
                Action::Finished { list } => {
                    if let Some(open) = self.lists.remove(&list) {
                        self.submit(open.user)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn switch(&mut self, drive: DriveId) {
        let status = self.scheduler.drive(drive);
        let parts = self.world.library.switch(status.mounted.map(|_| status.head));
        let unloaded = self.now + parts.unload;
        let ready = match self.arms_free.iter_mut().min() {
            Some(arm) => {
                let exchanged = unloaded.max(*arm) + parts.exchange;
                *arm = exchanged;
                exchanged + parts.load
            }
            None => unloaded + parts.load,
        };
        self.outcome.switch_s += seconds(ready.since(self.now));
        self.plan(ready, Happening::Drive(Event::Switched { drive }));
    }

    fn fetch(&mut self, drive: DriveId, id: FragmentId) {
        let fragment = self.fragments[&id];
        self.outcome.fetched.push(id);
        let head = self.scheduler.drive(drive).head;
        let seek = self.world.library.locate(head, fragment.position);
        let transfer = self.world.library.transfer(fragment.bytes);
        self.outcome.seek_s += seconds(seek);
        self.outcome.transfer_s += seconds(transfer);
        self.plan(self.now + seek + transfer, Happening::Drive(Event::Fetched { drive }));
    }

    fn process(&mut self, list: ListNo, subqueries: &[u32]) {
        let user = self.lists[&list].user;
        let (query, next, _) = self.at[user];
        let of = &self.world.users[user].queries[query];
        for subquery in subqueries {
            let fragments = of.lists[next - 1][*subquery as usize].inputs.iter().flatten();
            let bytes: u64 = fragments.map(|id| self.fragments[id].bytes).sum();
            let took = Span::from_nanos((u128::from(bytes) * u128::from(of.picos_per_byte) / 1000) as u64);
            self.outcome.cpu_s += seconds(took);
            self.processor_free = self.processor_free.max(self.now) + took;
            self.plan(self.processor_free, Happening::Processed { list, subquery: *subquery, bytes });
        }
    }
}
