//! The files of a scan's request, as the planner listed them.

use std::collections::HashMap;

use datafusion::datasource::listing::{FileRange, PartitionedFile};

use crate::file::chosen_rows::same_rows;

/// A file of a request: one file of the table, or some byte ranges of it.
#[derive(Clone, Debug)]
pub(crate) struct FileRequest {
    pub(crate) file: PartitionedFile,
    /// Only row groups that begin in one of these ranges are read; all if empty.
    pub(crate) ranges: Vec<FileRange>,
}

impl FileRequest {
    /// Returns the files of a scan. Adjacent ranges of one file, which spread it over partitions, are merged,
    /// because the engine spreads the work itself.
    pub(crate) fn from_files<'a>(files: impl Iterator<Item = &'a PartitionedFile>) -> Vec<FileRequest> {
        let mut requests: Vec<FileRequest> = Vec::new();
        let mut ranged: HashMap<&str, usize> = HashMap::new();
        for file in files {
            let Some(range) = &file.range else {
                requests.push(FileRequest { file: file.clone(), ranges: Vec::new() });
                continue;
            };
            let known = ranged.get(file.object_meta.location.as_ref()).copied();
            match known.map(|at| &mut requests[at]) {
                Some(request)
                    if same_rows(&request.file, file)
                        && request.ranges.iter().all(|r| !overlap(r, range)) =>
                {
                    request.ranges.push(range.clone());
                }
                _ => {
                    ranged.insert(file.object_meta.location.as_ref(), requests.len());
                    requests.push(FileRequest { file: file.clone(), ranges: vec![range.clone()] });
                }
            }
        }
        requests
    }
}

fn overlap(a: &FileRange, b: &FileRange) -> bool {
    a.start < b.end && b.start < a.end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(path: &str, start: i64, end: i64) -> PartitionedFile {
        PartitionedFile::new(path.to_owned(), 100).with_range(start, end)
    }

    #[test]
    fn ranges_of_a_file_come_together() {
        let files = [part("a", 0, 50), part("b", 0, 30), part("a", 50, 100), part("b", 30, 100)];
        let requests = FileRequest::from_files(files.iter());
        assert_eq!(requests.len(), 2);
        assert!(requests.iter().all(|request| request.ranges.len() == 2));
    }

    #[test]
    fn what_is_listed_twice_is_read_twice() {
        let whole = PartitionedFile::new("a".to_owned(), 100);
        assert_eq!(FileRequest::from_files([whole.clone(), whole].iter()).len(), 2);
        assert_eq!(FileRequest::from_files([part("a", 0, 50), part("a", 0, 50)].iter()).len(), 2);
    }
}
