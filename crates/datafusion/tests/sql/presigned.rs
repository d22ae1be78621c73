//! Files at URLs with a query, such as presigned ones, on a server that requires it in each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coscan_datafusion::CoscanContext;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

use crate::data;
use crate::support::{self, LARGE_BUFFER};
use crate::tables::declare;

/// A server of files, each at a path and query, that knows GET only.
struct Server {
    address: String,
    refused: Arc<AtomicUsize>,
}

impl Server {
    async fn start(files: Vec<(&'static str, Vec<u8>)>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (files, refused) = (Arc::new(files), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&refused);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&files), Arc::clone(&counted)));
            }
        });
        Server { address, refused }
    }
}

async fn serve(stream: TcpStream, files: Arc<Vec<(&'static str, Vec<u8>)>>, refused: Arc<AtomicUsize>) {
    let mut stream = BufReader::new(stream);
    loop {
        let (mut first, mut range) = (String::new(), None);
        loop {
            let mut line = String::new();
            if stream.read_line(&mut line).await.unwrap_or(0) == 0 {
                return;
            }
            if first.is_empty() {
                first.clone_from(&line);
            }
            if let Some(value) = line.to_lowercase().strip_prefix("range: bytes=") {
                range = value.trim().split_once('-').map(|(from, to)| (from.to_owned(), to.to_owned()));
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut words = first.split_whitespace();
        let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
        let found = files.iter().find(|(name, _)| *name == path).filter(|_| method == "GET");
        let answer = match (found, range) {
            (None, _) => {
                refused.fetch_add(1, Ordering::Relaxed);
                b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n".to_vec()
            }
            (Some((_, bytes)), None) => {
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n", bytes.len());
                [head.as_bytes(), bytes].concat()
            }
            (Some((_, bytes)), Some((from, to))) => {
                let from: usize = from.parse().unwrap_or(0);
                let to = to.parse::<usize>().map_or(bytes.len(), |to| to + 1).min(bytes.len());
                let part = &bytes[from..to];
                let head = format!(
                    "HTTP/1.1 206 Partial Content\r\ncontent-length: {}\r\ncontent-range: bytes {from}-{}/{}\r\netag: \"{}\"\r\n\
                     last-modified: Wed, 01 Jan 2025 00:00:00 GMT\r\n\r\n",
                    part.len(),
                    to - 1,
                    bytes.len(),
                    bytes.len()
                );
                [head.as_bytes(), part].concat()
            }
        };
        if stream.get_mut().write_all(&answer).await.is_err() {
            return;
        }
    }
}

fn numbers(first: i64) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("numbers.parquet");
    data::write(&path, &data::numbers(first, 3000), data::row_groups(500).build());
    std::fs::read(path).expect("a file")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_query_of_a_url_is_sent_with_each_request() {
    let files = vec![
        ("/b/t%20u.parquet?X-Amz-Signature=%2Bab&X-Amz-Expires=60", numbers(0)),
        ("/download?id=1", numbers(10_000)),
        ("/download?id=2", numbers(20_000)),
    ];
    let server = Server::start(files).await;
    for small in ["0", "4194304"] {
        let coscan = CoscanContext::builder()
            .policy("relevance")
            .buffer_bytes(LARGE_BUFFER)
            .set("small_table_bytes", small)
            .url_tables(true)
            .build()
            .expect("a context");
        let at = |path: &str| format!("http://{}{path}", server.address);
        let mut minima = Vec::new();
        for path in
            ["/b/t%20u.parquet?X-Amz-Signature=%2Bab&X-Amz-Expires=60", "/download?id=1", "/download?id=2"]
        {
            declare(&coscan.ctx, "t", &at(path)).await.expect(path);
            minima.push(support::number(&coscan.ctx, "SELECT min(n) FROM t WHERE n >= 0").await);
            let sql = format!("SELECT count(*) FROM '{}'", at(path));
            assert_eq!(support::number(&coscan.ctx, &sql).await, 3000);
        }
        assert_eq!(minima, [0, 10_000, 20_000]);
        assert_eq!(
            server.refused.load(Ordering::Relaxed),
            0,
            "requests without the query, or of another method"
        );
        let shown = support::rows(&coscan.ctx, "EXPLAIN SELECT * FROM t").await.expect("a plan").join("\n");
        assert!(!shown.contains("id=2"), "{shown}");
        let error = declare(&coscan.ctx, "e", &at("/b/t%20u.parquet?X-Amz-Signature=none")).await;
        let error = error.expect_err("no such signature").to_string();
        assert!(error.contains("403"), "{error}");
        server.refused.store(0, Ordering::Relaxed);
    }
}
