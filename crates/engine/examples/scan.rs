//! Scans files twice at the same time, and shows that they are read once.
//!
//!     cargo run --release -p coscan-engine --example scan -- FILE...

use std::error::Error;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use coscan_engine::{
    ChunkRequest, DeliveryOrder, Engine, EngineConfig, FileColumns, FileSpec, LocalFile, ScanHandle,
    ScanRequest, StoreId,
};
use object_store::local::LocalFileSystem;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ArrowReaderMetadata;

/// All columns of all row groups of these files, for one worker.
async fn request(engine: &Engine, paths: &[PathBuf]) -> Result<ScanRequest, Box<dyn Error>> {
    let (mut chunks, mut columns) = (Vec::new(), Vec::new());
    for path in paths {
        let (spec, footer) = spec(path).await?;
        let schema = footer.schema().clone();
        let roots = (0..schema.fields().len()).collect();
        let file = engine.open_file(spec)?;
        for chunk in 0..file.chunks().len() {
            chunks.push(ChunkRequest { columns: columns.len(), chunk, key: chunks.len() as u32 });
        }
        columns.push(FileColumns { file, roots, schema });
    }
    Ok(ScanRequest {
        chunks,
        columns,
        workers: 1,
        order: DeliveryOrder::Any,
        weight: 1,
        reader: None,
        matching: Vec::new(),
    })
}

async fn spec(path: &Path) -> Result<(FileSpec, ArrowReaderMetadata), Box<dyn Error>> {
    let store: Arc<dyn ObjectStore> = Arc::new(LocalFileSystem::new());
    // First the version, then the footer: if the file is replaced between the two, a read reports it.
    let local = LocalFile::look(path.canonicalize()?)?;
    let footer = ArrowReaderMetadata::load(&File::open(path)?, Default::default())?;
    let meta = store.head(&object_store::path::Path::from_filesystem_path(path)?).await?;
    let spec = FileSpec {
        store_url: "file:///".into(),
        store_id: StoreId::instance(&store),
        local: Some(local),
        meta,
        metadata: footer.metadata().clone(),
        table_root: path.parent().unwrap_or(path).display().to_string(),
        store,
    };
    Ok((spec, footer))
}

/// Reads everything, and returns the number of rows.
async fn rows(scan: ScanHandle) -> Result<usize, Box<dyn Error>> {
    let (mut worker, mut rows) = (scan.worker(), 0);
    while let Some(mut chunk) = worker.next().await? {
        for slice in 0..chunk.slices() {
            rows += chunk.slice(slice).await?.first().map_or(0, |array| array.len());
        }
    }
    Ok(rows)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let engine =
        Engine::new(EngineConfig::new("relevance".parse::<coscan_engine::PolicyName>()?, 256 << 20))?;
    let request = request(&engine, &paths).await?;
    // Both are announced before the first byte is read, so reads for one serve the other.
    let (first, second) = (engine.scan(request.clone())?, engine.scan(request)?);
    let (first, second) = tokio::try_join!(rows(first), rows(second))?;
    println!("{first} rows and {second} rows from {} bytes read", engine.stats().bytes_read);
    Ok(())
}
