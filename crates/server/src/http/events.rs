//! Server-sent events to one browser. The browser gets the newest frame whenever it has taken the last one.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::sse::{Event, KeepAlive};
use axum::response::{IntoResponse, Response, Sse};
use futures::stream;
use serde_json::json;

use super::Http;
use super::frame::{Frame, News, Sent, finished, message};
use crate::access::User;

/// Number of earlier loads that a new browser is shown.
const LOADS_BEFORE: u64 = 3000;

/// Number of finished statements that the page shows.
const FINISHED_SHOWN: usize = 100;

/// Time after which a browser that lost the connection tries again.
const RETRY: Duration = Duration::from_secs(1);

/// See the module's documentation.
pub(crate) async fn events(State(http): State<Arc<Http>>, Extension(user): Extension<User>) -> Response {
    let Some(frames) = http.watch.subscribe() else {
        let why = "too many browsers watch the page already (100): close one\n";
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    };
    let newest = http.state.engine().loads_since(u64::MAX).first;
    let seen = Seen { loads: newest.saturating_sub(LOADS_BEFORE), finished: 0 };
    let start = (frames, Sent::default(), seen, true);
    let messages = stream::unfold(start, move |(mut frames, mut sent, mut seen, first)| {
        let (http, user) = (http.clone(), user.clone());
        async move {
            let frame = tokio::select! {
                frame = newest_of(&mut frames) => frame?,
                // A connection that never ends would delay the server's shutdown.
                () = http.state.drained() => return None,
                () = user.ended.wait() => return None,
            };
            let news = seen.news(&http, &frame, &user);
            let event = Event::default().data(message(&frame, &user, &mut sent, &news));
            let event = if first { event.retry(RETRY) } else { event };
            Some((Ok::<_, Infallible>(event), (frames, sent, seen, false)))
        }
    });
    Sse::new(messages).keep_alive(KeepAlive::default()).into_response()
}

async fn newest_of(frames: &mut tokio::sync::watch::Receiver<Option<Arc<Frame>>>) -> Option<Arc<Frame>> {
    loop {
        frames.changed().await.ok()?;
        if let Some(frame) = frames.borrow_and_update().clone() {
            return Some(frame);
        }
    }
}

/// The numbers of the next load and of the next finished statement for a browser.
struct Seen {
    loads: u64,
    finished: u64,
}

impl Seen {
    /// What happened since the last call: loads of tables that the user sees, as time, table, position and columns;
    /// and finished statements.
    fn news(&mut self, http: &Http, frame: &Frame, user: &User) -> News {
        let recent = http.state.engine().loads_since(self.loads);
        let point = |load: &coscan_engine::LoadSeen| {
            let table = frame.tables.iter().find(|table| table.id == load.table)?;
            let position = table.position(load.chunk)?;
            let shown = user.role.sees(&table.name);
            shown.then(|| json!([load.at.as_millis() as u64, load.table, position, load.columns]))
        };
        let (ended, next) = http.state.registry().finished_since(self.finished);
        let last = &ended[ended.len().saturating_sub(FINISHED_SHOWN)..];
        let news = News {
            loads: recent.loads.iter().filter_map(point).collect(),
            finished: last.iter().map(|statement| finished(statement, user)).collect(),
        };
        (self.loads, self.finished) = (recent.next(), next);
        news
    }
}
