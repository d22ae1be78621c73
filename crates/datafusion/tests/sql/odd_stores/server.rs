//! An HTTP server that serves one object with given oddities. It is written by hand, because server libraries
//! do not send wrong lengths.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use super::oddities::{Bodies, Busy, Conditions, Heads, Oddities, Ranges, Tags, Times};

/// The object, and the counts of requests.
pub struct Server {
    pub oddities: Oddities,
    /// The object, and its replacement.
    pub versions: [Vec<u8>; 2],
    requests: AtomicU64,
    gets: AtomicU64,
    tags: AtomicU64,
}

/// The relevant parts of a request.
struct Request {
    method: String,
    path: String,
    headers: HashMap<String, String>,
}

/// The time of the object's last change, in seconds since 1970.
const WRITTEN: u64 = 1_700_000_000;

impl Server {
    /// Serves until the runtime ends. Returns the address.
    pub async fn start(oddities: Oddities, versions: [Vec<u8>; 2]) -> (Arc<Self>, String) {
        let server = Server {
            oddities,
            versions,
            requests: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            tags: AtomicU64::new(0),
        };
        let server = Arc::new(server);
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = format!("http://{}", listener.local_addr().expect("an address"));
        let serving = Arc::clone(&server);
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let server = Arc::clone(&serving);
                tokio::spawn(async move { server.serve(socket).await });
            }
        });
        (server, address)
    }

    /// Requests so far.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    async fn serve(&self, socket: TcpStream) -> Option<()> {
        let mut socket = BufReader::new(socket);
        loop {
            let request = read(&mut socket).await?;
            let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
            let (head, body) = self.answer(&request, number);
            let answer = [head.into_bytes(), body].concat();
            match self.oddities.bodies {
                Bodies::Slow => {
                    for piece in answer.chunks(answer.len() / 4 + 1) {
                        socket.get_mut().write_all(piece).await.ok()?;
                        socket.get_mut().flush().await.ok()?;
                        tokio::time::sleep(Duration::from_millis(2)).await;
                    }
                }
                Bodies::BreakOff(every) if request.method == "GET" && number.is_multiple_of(every) => {
                    socket.get_mut().write_all(&answer[..answer.len() - 1 - answer.len() / 3]).await.ok()?;
                    socket.get_mut().shutdown().await.ok()?;
                    return None;
                }
                Bodies::Reset(every) if number.is_multiple_of(every) => return None,
                _ => socket.get_mut().write_all(&answer).await.ok()?,
            }
        }
    }

    /// Returns headers and body.
    fn answer(&self, request: &Request, number: u64) -> (String, Vec<u8>) {
        let odd = &self.oddities;
        let plain = |status: &str, more: &str| {
            (format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n{more}\r\n"), Vec::new())
        };
        if let Busy::Every { status, every, retry_after } = odd.busy
            && number.is_multiple_of(every)
        {
            return plain(&format!("{status} Busy"), retry_after.unwrap_or(""));
        }
        if let Busy::Always(status) = odd.busy {
            let body = format!(
                "<Error><Code>Odd</Code><Message>as asked</Message><Detail>{number}</Detail></Error>"
            );
            let head = format!("HTTP/1.1 {status} No\r\ncontent-length: {}\r\n\r\n", body.len());
            return (head, if request.method == "HEAD" { Vec::new() } else { body.into() });
        }
        if request.method == "PROPFIND" {
            return self.list(request);
        }
        if request.path != "/t/t.parquet" || odd.missing {
            return plain("404 Not Found", "");
        }
        let head = request.method == "HEAD";
        if head && let Heads::Refused(status) = odd.heads {
            return plain(&format!("{status} No"), "");
        }
        let gets =
            if head { self.gets.load(Ordering::Relaxed) } else { self.gets.fetch_add(1, Ordering::Relaxed) };
        let version = usize::from(odd.replaced_after.is_some_and(|after| gets >= after));
        let tag = self.tag(head, version);
        let condition = request.headers.get("if-match");
        match odd.conditions {
            Conditions::Refused(status) if condition.is_some() => return plain(&format!("{status} No"), ""),
            // Weak tags never match (RFC 9110).
            Conditions::Honest
                if condition
                    .is_some_and(|wanted| Some(wanted) != tag.as_ref() || wanted.starts_with('W')) =>
            {
                return plain("412 Precondition Failed", "");
            }
            _ => {}
        }
        let marks = self.marks(head, version, tag);
        let bytes = &self.versions[version];
        if head {
            let length = match odd.heads {
                Heads::NoLength => String::new(),
                Heads::ZeroLength => "content-length: 0\r\n".to_owned(),
                _ => format!("content-length: {}\r\n", bytes.len()),
            };
            return (format!("HTTP/1.1 200 OK\r\n{length}{marks}\r\n"), Vec::new());
        }
        let range = request.headers.get("range").and_then(|range| range_of(range, bytes.len()));
        let Some((start, end)) = range.filter(|_| odd.ranges != Ranges::Ignored) else {
            return (
                format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n{marks}\r\n", bytes.len()),
                bytes.clone(),
            );
        };
        let (total, last) = (bytes.len(), end - 1);
        let range = match odd.ranges {
            Ranges::WrongStart => format!("content-range: bytes {}-{last}/{total}\r\n", start + 1),
            Ranges::NotTold => String::new(),
            Ranges::NoTotal => format!("content-range: bytes {start}-{last}/*\r\n"),
            Ranges::WrongTotal => format!("content-range: bytes {start}-{last}/{}\r\n", total + 7),
            Ranges::Good | Ranges::Ignored => format!("content-range: bytes {start}-{last}/{total}\r\n"),
        };
        let body = bytes[start..end].to_vec();
        (
            format!("HTTP/1.1 206 Partial Content\r\ncontent-length: {}\r\n{range}{marks}\r\n", body.len()),
            body,
        )
    }

    fn list(&self, request: &Request) -> (String, Vec<u8>) {
        if !self.oddities.listed || request.path != "/t" {
            return ("HTTP/1.1 501 Not Implemented\r\ncontent-length: 0\r\n\r\n".to_owned(), Vec::new());
        }
        let version =
            self.oddities.replaced_after.is_some_and(|after| self.gets.load(Ordering::Relaxed) >= after);
        let version = usize::from(version);
        let tag = self.tag(true, version).map_or(String::new(), |tag| format!("<getetag>{tag}</getetag>"));
        let time = http_date(self.time(version));
        let length = self.versions[version].len();
        let body = format!(
            "<?xml version=\"1.0\"?><multistatus xmlns=\"DAV:\"><response><href>/t/t.parquet</href><propstat><prop>\
             <getlastmodified>{time}</getlastmodified><getcontentlength>{length}</getcontentlength><resourcetype/>{tag}\
             </prop><status>HTTP/1.1 200 OK</status></propstat></response></multistatus>"
        );
        (format!("HTTP/1.1 207 Multi-Status\r\ncontent-length: {}\r\n\r\n", body.len()), body.into_bytes())
    }

    fn tag(&self, head: bool, version: usize) -> Option<String> {
        let of = |kind: &str| Some(format!("\"v{version}{kind}\""));
        match (self.oddities.tags, head) {
            (Tags::Strong, _) | (Tags::StrongAndWeak | Tags::Encoded, true) => of(""),
            (Tags::Weak, _) | (Tags::StrongAndWeak, false) => Some(format!("W/\"v{version}\"")),
            (Tags::Encoded, false) => of("-gzip"),
            (Tags::Absent, _) | (Tags::OfHead, false) | (Tags::OfGet, true) => None,
            (Tags::OfHead, true) | (Tags::OfGet, false) => of(""),
            (Tags::OtherInHead, true) => of("listed"),
            (Tags::OtherInHead, false) => of("object"),
            (Tags::Changing, _) => {
                let number = self.tags.fetch_add(1, Ordering::Relaxed);
                of(&format!("n{number}"))
            }
            (Tags::TwoServers, _) => of(&format!("s{}", self.tags.fetch_add(1, Ordering::Relaxed) % 2)),
        }
    }

    fn time(&self, version: usize) -> u64 {
        match self.oddities.times {
            Times::OfAnswer => SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs(),
            _ => WRITTEN + 100 * version as u64,
        }
    }

    fn marks(&self, head: bool, version: usize, tag: Option<String>) -> String {
        let tag = tag.map_or(String::new(), |tag| format!("etag: {tag}\r\n"));
        let told = match self.oddities.times {
            Times::Absent => false,
            Times::OfHead => head,
            Times::Told | Times::OfAnswer => true,
        };
        let time = if told {
            format!("last-modified: {}\r\n", http_date(self.time(version)))
        } else {
            String::new()
        };
        format!("{tag}{time}")
    }
}

async fn read(socket: &mut BufReader<TcpStream>) -> Option<Request> {
    let mut line = String::new();
    socket.read_line(&mut line).await.ok().filter(|read| *read > 0)?;
    let mut parts = line.split(' ');
    let (method, path) = (parts.next()?.to_owned(), parts.next()?.to_owned());
    let mut headers = HashMap::new();
    loop {
        let mut line = String::new();
        socket.read_line(&mut line).await.ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
    }
    let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    socket.read_exact(&mut body).await.ok()?;
    Some(Request { method, path, headers })
}

/// Returns start and end of a range.
fn range_of(header: &str, size: usize) -> Option<(usize, usize)> {
    let (start, last) = header.strip_prefix("bytes=")?.split_once('-')?;
    let range = match (start.parse::<usize>().ok(), last.parse::<usize>().ok()) {
        (Some(start), Some(last)) => (start, (last + 1).min(size)),
        (Some(start), None) => (start, size),
        (None, Some(suffix)) => (size.saturating_sub(suffix), size),
        (None, None) => return None,
    };
    Some(range).filter(|(start, end)| start < end)
}

/// Formats a time for HTTP.
fn http_date(seconds: u64) -> String {
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    let (days, time) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's civil_from_days.
    let shifted = days + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = (year_of_era + era * 400 + month / 10, (month + 2) % 12);
    let (weekday, month) = (DAYS[(days % 7) as usize], MONTHS[month as usize]);
    let (hour, minute, second) = (time / 3600, time / 60 % 60, time % 60);
    format!("{weekday}, {day:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT")
}

#[test]
fn dates_are_those_of_http() {
    assert_eq!(http_date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    assert_eq!(http_date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
    assert_eq!(http_date(1_709_251_199), "Thu, 29 Feb 2024 23:59:59 GMT");
}
