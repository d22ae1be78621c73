//! Lists the files of a table on this machine.
//!
//! Only folders that may have files of the table are entered, and no folder twice on one path, as a link to a
//! folder above would demand. What is no regular file is ignored. A file gets an ETag of everything that
//! distinguishes its version, because size and modification time may be those of another.

use std::ffi::OsStr;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{self, PathBuf};

use coscan_engine::LocalVersion;
use datafusion::common::{DataFusionError, Result, plan_err};
use datafusion::object_store::ObjectMeta;
use datafusion::object_store::path::Path;

use super::hidden::is_hidden;
use super::keys::Wanted;
use super::listing::{Listed, keys_of};
use super::location::Location;

/// A folder to list.
struct Folder {
    path: PathBuf,
    /// The names of the folders from the location on.
    parts: Vec<String>,
    /// Device and inode of the folders on the way.
    above: Vec<(u64, u64)>,
}

/// Returns the files at a location, as [`super::listing::files_at`] does, in no particular order.
pub(super) async fn files_at(
    location: &Location,
    wanted: &[Wanted],
    subfolders: bool,
) -> Result<Vec<Listed>> {
    let (location, wanted) = (location.clone(), wanted.to_vec());
    let listed = tokio::task::spawn_blocking(move || listed(&location, &wanted, subfolders)).await;
    listed.map_err(|error| DataFusionError::External(Box::new(error)))?
}

fn listed(location: &Location, wanted: &[Wanted], subfolders: bool) -> Result<Vec<Listed>> {
    let Ok(path) = location.url().get_url().to_file_path() else {
        return plan_err!("{} is no path on this machine", location.text());
    };
    let Some(about) = found(fs::metadata(&path))? else { return Ok(Vec::new()) };
    if about.is_file() && location.may_be_file() {
        let meta = described(location.url().prefix().clone(), LocalVersion::of(&about));
        return Ok(vec![Listed { meta, keys: Vec::new() }]);
    }
    if !about.is_dir() {
        return plan_err!("{} is neither a file nor a folder", location.text());
    }
    let mut files = Vec::new();
    let mut folders = vec![Folder { path, parts: Vec::new(), above: vec![(about.dev(), about.ino())] }];
    while let Some(folder) = folders.pop() {
        let Some(entries) = found(fs::read_dir(&folder.path))? else { continue };
        for entry in entries {
            let Some(entry) = found(entry)? else { continue };
            let name = entry.file_name();
            let mut parts = folder.parts.clone();
            parts.push(name.to_string_lossy().into_owned());
            let names: Vec<&str> = parts.iter().map(String::as_str).collect();
            let may_be_file = location.has(&names, subfolders);
            if !may_be_file && !enters(location, wanted, subfolders, &names) {
                continue;
            }
            // The file or folder that a link leads to, if it leads anywhere.
            let is_link = entry.file_type().is_ok_and(|of| of.is_symlink());
            let about = match fs::metadata(entry.path()) {
                Err(_) if is_link => continue,
                about => found(about)?,
            };
            let Some(about) = about else { continue };
            if about.is_dir() {
                let place = (about.dev(), about.ino());
                if enters(location, wanted, subfolders, &names) && !folder.above.contains(&place) {
                    let above = folder.above.iter().copied().chain([place]).collect();
                    folders.push(Folder { path: entry.path(), parts, above });
                }
            } else if about.is_file() && may_be_file && about.len() > 0 && !is_unfinished(&name) {
                let Some(place) = place_of(location, &entry.path(), &names) else {
                    return plan_err!(
                        "{:?} cannot be read, because its path has control characters or is not UTF-8: rename it",
                        entry.path()
                    );
                };
                let meta = described(place, LocalVersion::of(&about));
                files.push(Listed { meta, keys: keys_of(&names) });
            }
        }
    }
    Ok(files)
}

/// Returns whether a folder may have files of the table. Its names begin at the location.
fn enters(location: &Location, wanted: &[Wanted], subfolders: bool, names: &[&str]) -> bool {
    let Some((name, above)) = names.split_last() else { return true };
    if !name.contains('=') {
        return location.enters_others(subfolders) && (location.is_pattern() || !is_hidden(name, true));
    }
    let level = above.iter().filter(|folder| folder.contains('=')).count();
    wanted.get(level).is_none_or(|wanted| wanted.is_stated_by(name))
}

/// Returns the path of a file in its store; `None` if it cannot be one.
fn place_of(location: &Location, path: &path::Path, names: &[&str]) -> Option<Path> {
    path.to_str()?;
    let (root, below) = (location.url().prefix().as_ref(), names.join("/"));
    Path::parse(if root.is_empty() { below } else { format!("{root}/{below}") }).ok()
}

/// Returns whether a file is being written by the store of local files, which reads no file of such a name.
fn is_unfinished(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let number = name.split_once('#').map_or("", |(_, number)| number);
    !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit())
}

/// Returns the description of a file in this version.
fn described(location: Path, version: LocalVersion) -> ObjectMeta {
    ObjectMeta {
        location,
        last_modified: version.modified().into(),
        size: version.bytes(),
        e_tag: Some(version.tag()),
        version: None,
    }
}

/// `None` if there is nothing at the path.
fn found<T>(result: io::Result<T>) -> Result<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::symlink;

    use coscan_engine::LocalFile;

    use super::*;

    #[test]
    fn odd_entries_are_passed_over_or_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = folder.path();
        let write = |name: &OsStr| fs::write(root.join(name), "x").expect("a file");
        for name in ["a.parquet", "x\ty.txt", "b.parquet#1", "_c.parquet"] {
            write(OsStr::new(name));
        }
        write(OsStr::from_bytes(b"\xff.txt"));
        fs::create_dir(root.join("k=a%3Db")).expect("a folder");
        write(OsStr::new("k=a%3Db/d.parquet"));
        symlink(root, root.join("k=a%3Db/k=x")).expect("a link");
        symlink(root.join("none"), root.join("broken.parquet")).expect("a link");
        symlink(root.join("loop.parquet"), root.join("loop.parquet")).expect("a link");
        let location = Location::parse(root.to_str().expect("a path")).expect("a location");
        let names = |wanted: &[Wanted]| {
            let files = listed(&location, wanted, false).expect("files");
            let mut names: Vec<_> =
                files.iter().filter_map(|file| file.meta.location.filename().map(str::to_owned)).collect();
            names.sort();
            names
        };
        assert_eq!(names(&[]), ["a.parquet", "d.parquet"]);
        write(OsStr::from_bytes(b"\xff.parquet"));
        let error = listed(&location, &[], false).expect_err("a name").to_string();
        assert!(error.contains("not UTF-8"), "{error}");
    }

    #[test]
    fn a_version_has_a_tag_of_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.parquet");
        let tag = |content: &str| {
            fs::write(&path, content).expect("a file");
            let modified = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1);
            let file = fs::File::options().write(true).open(&path).expect("a file");
            file.set_modified(modified).expect("a time");
            LocalFile::look(path.clone()).expect("a file").version.tag()
        };
        let first = tag("a");
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert_ne!(first, tag("b"));
    }
}
