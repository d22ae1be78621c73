//! Two users with data on some of the same tapes, in virtual time:
//! `cargo run --release -p coscan-media --example two_users`

use std::error::Error;

use coscan_media::{
    Action, Event, Fragment, FragmentId, Instant, Library, ListId, MediumId, PolicyName, Scheduler,
    SchedulerConfig, Subquery, UserId,
};

fn main() -> Result<(), Box<dyn Error>> {
    const BYTES: u64 = 100 << 20;
    for policy in PolicyName::all() {
        let mut scheduler =
            Scheduler::new(SchedulerConfig::new(512 << 20), Library::tape_stacker_1996(), policy)?;
        let (mut now, mut actions) = (Instant::ZERO, Vec::new());
        for user in [1, 2] {
            let tapes = user as u32..user as u32 + 5;
            let ids: Vec<FragmentId> =
                tapes.clone().map(|tape| FragmentId(user * 100 + u64::from(tape))).collect();
            for (id, tape) in ids.iter().zip(tapes) {
                let position = (user - 1) * (4 << 30);
                scheduler.add_fragment(Fragment {
                    id: *id,
                    medium: MediumId(tape),
                    position,
                    bytes: BYTES,
                })?;
            }
            let subqueries = ids.into_iter().map(|id| Subquery::of([id])).collect();
            scheduler.handle(
                now,
                Event::Submit { list: ListId(user), user: UserId(user), subqueries },
                &mut actions,
            );
        }
        // One drive: its action ends before the next event.
        while !actions.is_empty() {
            let mut next = Vec::new();
            for action in std::mem::take(&mut actions) {
                let event = match action {
                    Action::Switch { drive, .. } => {
                        now = now + scheduler.switch_time(drive);
                        Event::Switched { drive }
                    }
                    Action::Fetch { drive, fragment, .. } => {
                        now = now + scheduler.fetch_time(drive, fragment);
                        Event::Fetched { drive }
                    }
                    Action::Ready { list, subqueries } => Event::Done { list, subqueries },
                    _ => continue,
                };
                scheduler.handle(now, event, &mut next);
            }
            actions = next;
        }
        let totals = scheduler.totals();
        let minutes = now.as_nanos() as f64 / 6e10;
        println!(
            "{policy:12} {:2} switches, {} fetches, {minutes:5.1} minutes",
            totals.switches, totals.fetches
        );
    }
    Ok(())
}
