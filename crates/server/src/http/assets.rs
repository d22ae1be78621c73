//! The page: files that are compiled into the program, so that it needs no network and no build of its own.

use std::sync::Arc;

use axum::Router;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::Http;

const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const STYLE: &str = "text/css; charset=utf-8";

macro_rules! files {
    ($($path:literal, $kind:ident, $file:literal;)*) => {
        const FILES: &[(&str, &str, &str)] =
            &[$(($path, $kind, include_str!(concat!("../../page/", $file))),)*];
    };
}

const PICTURE: &str = "image/svg+xml";

files! {
    "/", HTML, "index.html";
    "/page.css", STYLE, "page.css";
    "/page.js", SCRIPT, "page.js";
    "/stream.js", SCRIPT, "stream.js";
    "/words.js", SCRIPT, "words.js";
    "/map.js", SCRIPT, "map.js";
    "/loads.js", SCRIPT, "loads.js";
    "/queries.js", SCRIPT, "queries.js";
    "/ledger.js", SCRIPT, "ledger.js";
    "/start.js", SCRIPT, "start.js";
    "/finished.js", SCRIPT, "finished.js";
    "/savings.js", SCRIPT, "savings.js";
    "/plan.js", SCRIPT, "plan.js";
    "/chart.js", SCRIPT, "chart.js";
    "/complete.js", SCRIPT, "complete.js";
    "/box.js", SCRIPT, "box.js";
    "/controls.js", SCRIPT, "controls.js";
    "/workers.js", SCRIPT, "workers.js";
    "/icon.svg", PICTURE, "icon.svg";
}

/// A route for every file.
pub(crate) fn routes() -> Router<Arc<Http>> {
    FILES.iter().fold(Router::new(), |router, &(path, kind, text)| {
        router.route(path, get(move || async move { file(kind, text) }))
    })
}

fn file(kind: &'static str, text: &'static str) -> Response {
    // Another version of the program has another page. Without caching, files of both versions do not mix.
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, "no-cache")], text).into_response()
}

#[cfg(test)]
mod tests {
    use super::FILES;

    #[test]
    fn nothing_is_fetched_from_elsewhere_and_nothing_is_inline() {
        for (path, _, text) in FILES {
            let allowed = text.replace("http://www.w3.org/2000/svg", "");
            assert!(
                !allowed.contains("http://") && !allowed.contains("https://"),
                "{path} names another host"
            );
            assert!(!text.contains("style=\""), "{path}: the policy forbids styles in attributes");
            assert!(!text.contains("innerHTML"), "{path}: names and statements are text, not markup");
        }
        let html = FILES[0].2;
        assert_eq!(html.matches("<script").count(), html.matches("<script type=\"module\" src=").count());
    }

    #[test]
    fn every_module_that_is_imported_is_there() {
        for (path, _, text) in FILES {
            for line in text.lines().filter(|line| line.starts_with("import ")) {
                let name = line.rsplit_once("\"./").map(|(_, rest)| rest.trim_end_matches("\";"));
                let name = name.unwrap_or_else(|| panic!("{path}: {line}"));
                assert!(
                    FILES.iter().any(|(known, ..)| *known == format!("/{name}")),
                    "{path} imports {name}"
                );
            }
        }
    }
}
