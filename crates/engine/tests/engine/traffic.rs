//! An engine's report on the queries that read a table, and on its bytes in the buffer.

use std::sync::Arc;

use coscan_engine::{
    ChunkColumns, DeliveryOrder, Engine, MatchingChunk, MatchingRequest, QueryAccount, Reader, ScanRequest,
    Traffic,
};

use crate::support::{config, drain, open, request, sample};

const GROUPS: usize = 3;

#[tokio::test]
async fn a_query_counts_once_however_many_scans_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let engine = Engine::new(config("relevance", 64 << 20)).unwrap();
    let file = open(&engine, &sample(dir.path(), "read.parquet", GROUPS, 500)).await;
    let other = tempfile::tempdir().unwrap();
    let elsewhere = open(&engine, &sample(other.path(), "other.parquet", GROUPS, 500)).await;
    let files = std::slice::from_ref(&file);
    let seen = || {
        let chunk = |chunk| ChunkColumns { file: &file.id, chunk, roots: &[1] };
        engine.traffic(&(0..GROUPS).map(chunk).collect::<Vec<_>>())
    };
    let nothing = seen();
    assert_eq!((nothing.queries, nothing.resident_bytes), (0, 0));

    // Like a query with an in-order scan in several partitions, and with the table twice.
    let (one, two) = (Arc::new(QueryAccount::new(1, 1)), Arc::new(QueryAccount::new(2, 1)));
    let in_order = || ScanRequest { order: DeliveryOrder::Table, ..request(files, Some(&[0])) };
    let partitions = [(); 4].map(|()| engine.scan_for(one.clone(), in_order()).unwrap());
    let again = engine.scan_for(one.clone(), request(files, Some(&[2]))).unwrap();
    assert_eq!(seen().queries, 1);
    // A scan with matching chunks of another table, and the scan that reads them for it, are not apart.
    let matching = MatchingRequest {
        reader: Reader::default(),
        chunks: vec![MatchingChunk { with: 0, columns: 0, chunk: 0 }],
        columns: request(std::slice::from_ref(&elsewhere), None).columns,
    };
    let reader = Some(matching.reader.clone());
    let joined = ScanRequest { matching: vec![matching], ..request(files, None) };
    let second = engine.scan_for(two, joined).unwrap();
    assert_eq!((seen().queries, seen().apart), (2, 1));
    let visit = ScanRequest { reader, ..request(std::slice::from_ref(&elsewhere), None) };
    let visit = engine.scan(visit).unwrap();
    let there = ChunkColumns { file: &elsewhere.id, chunk: 0, roots: &[0] };
    let traffic = engine.traffic(&[there]);
    assert_eq!((traffic.queries, traffic.apart), (1, 0));
    drop(visit);
    // Another table does not count.
    let not_here = engine.scan(request(std::slice::from_ref(&elsewhere), None)).unwrap();
    assert_eq!(seen().queries, 2);
    drop(not_here);

    // Without accounts, queries are told apart by reader.
    let reader = Some(Reader::default());
    let of_reader = [(); 2].map(|()| {
        let request = ScanRequest { reader: reader.clone(), ..request(files, Some(&[3])) };
        engine.scan(request).unwrap()
    });
    let unknown = [(); 2].map(|()| engine.scan(request(files, Some(&[3]))).unwrap());
    assert_eq!(seen().queries, 5);
    drop((partitions, again, of_reader, unknown));
    assert_eq!(seen().queries, 1);

    drain(&mut second.worker()).await.unwrap();
    drop(second);
    let Traffic { queries, apart, bytes, resident_bytes } = seen();
    assert_eq!((queries, apart, bytes), (0, 0, nothing.bytes));
    assert!(bytes > 0 && resident_bytes == bytes, "{resident_bytes} of {bytes} bytes");
}
