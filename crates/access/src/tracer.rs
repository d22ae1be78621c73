//! The pager of the access methods: it provides their pages and records every access with the processor time
//! used by then.
//!
//! The pager has no buffer pool. All pages are in memory at no cost, because the trace strings of Chou &
//! DeWitt 1985 are without disk reads (section 4.1.1). A replay of the trace on a pool determines which
//! accesses need a disk.
//!
//! The first page of every file is its header. It is read when the file is opened, and written when a
//! temporary file is closed. It is accessed through a separate file instance, which is closed at once. In a
//! locality set with MRU or LIFO a page that is used only once would stay and take the place of a useful one.

use std::sync::Arc;

use coscan_pool::locality::set::LocalitySet;
use coscan_pool::locality::{LocalReplacement, Pattern};
use coscan_trace::pages::{PageOp, PageRecord, QueryTrace, TracedFile};

use crate::cpu::CpuModel;
use crate::error::AccessError;
use crate::page::Page;

/// A file of the database: never changed, shared by its copies, which differ in their names.
#[derive(Clone, Debug)]
pub struct File {
    name: String,
    pages: Arc<Vec<Page>>,
}

impl File {
    /// A file of these pages; the first is its header.
    pub(crate) fn new(name: &str, pages: Vec<Page>) -> Self {
        File { name: name.to_owned(), pages: Arc::new(pages) }
    }

    /// The same pages under another name.
    pub fn renamed(&self, name: &str) -> Self {
        File { name: name.to_owned(), pages: Arc::clone(&self.pages) }
    }

    /// Its name, unique in a database.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The number of its pages, including the header.
    pub fn pages(&self) -> u32 {
        self.pages.len() as u32
    }

    pub(crate) fn header(&self) -> Option<&Page> {
        self.pages.first()
    }
}

/// An open file instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instance(u32);

/// Records one execution of a query.
#[derive(Debug)]
pub struct Tracer {
    cpu: CpuModel,
    now_ns: u64,
    files: Vec<Traced>,
    /// The file of each instance while it is open.
    instances: Vec<Option<u32>>,
    records: Vec<PageRecord>,
}

#[derive(Debug)]
struct Traced {
    name: String,
    pages: Pages,
}

#[derive(Debug)]
enum Pages {
    Stored(Arc<Vec<Page>>),
    Temporary(Vec<Page>),
}

impl Pages {
    fn all(&self) -> &[Page] {
        match self {
            Pages::Stored(pages) => pages,
            Pages::Temporary(pages) => pages,
        }
    }
}

const HEADER: u32 = 0;
const HEADER_SET: LocalitySet =
    LocalitySet { pattern: Pattern::StraightSequential, pages: 1, replacement: LocalReplacement::Lru };

impl Tracer {
    /// Begins a query.
    pub fn new(cpu: CpuModel) -> Self {
        Tracer { cpu, now_ns: cpu.query_ns, files: vec![], instances: vec![], records: vec![] }
    }

    /// Opens a file of the database with its locality set.
    pub fn open(&mut self, file: &File, set: LocalitySet) -> Instance {
        let position = self.files.iter().position(|f| f.name == file.name).unwrap_or_else(|| {
            self.files
                .push(Traced { name: file.name.clone(), pages: Pages::Stored(Arc::clone(&file.pages)) });
            self.files.len() - 1
        });
        self.work(1, |cpu| cpu.file_ns);
        let position = position as u32;
        self.header(position, |instance| PageOp::Read { instance, page: HEADER });
        self.begin(position, set)
    }

    /// Creates a temporary file, which ends with the query, and opens it.
    pub fn create(&mut self, name: &str, set: LocalitySet) -> Instance {
        self.work(1, |cpu| cpu.file_ns);
        self.files.push(Traced { name: name.to_owned(), pages: Pages::Temporary(vec![Page::empty()]) });
        self.begin(self.files.len() as u32 - 1, set)
    }

    /// Closes an instance.
    ///
    /// # Errors
    /// If the instance is not open.
    pub fn close(&mut self, instance: Instance) -> Result<(), AccessError> {
        let file = self.file_of(instance)?;
        self.instances[instance.0 as usize] = None;
        self.record(PageOp::Close { instance: instance.0 });
        if matches!(self.files[file as usize].pages, Pages::Temporary(_)) {
            self.header(file, |instance| PageOp::Write { instance, page: HEADER });
        }
        Ok(())
    }

    /// Reads a page.
    ///
    /// # Errors
    /// If the instance is not open, or the file has no such page.
    pub fn read(&mut self, instance: Instance, page: u32) -> Result<&Page, AccessError> {
        let file = self.file_of(instance)? as usize;
        self.access(PageOp::Read { instance: instance.0, page });
        let traced = &self.files[file];
        traced.pages.all().get(page as usize).ok_or_else(|| traced.no_page(page))
    }

    /// Reads a page of a temporary file, and changes it if `change` returns a value; otherwise the access
    /// counts as a read.
    pub fn update<T>(
        &mut self,
        instance: Instance,
        page: u32,
        change: impl FnOnce(&mut Page) -> Option<T>,
    ) -> Result<Option<T>, AccessError> {
        let file = self.file_of(instance)? as usize;
        let traced = &mut self.files[file];
        let Pages::Temporary(pages) = &mut traced.pages else {
            return Err(AccessError::ReadOnly { file: traced.name.clone() });
        };
        let Some(found) = pages.get_mut(page as usize) else { return Err(traced.no_page(page)) };
        let changed = change(found);
        self.access(match changed {
            Some(_) => PageOp::Write { instance: instance.0, page },
            None => PageOp::Read { instance: instance.0, page },
        });
        Ok(changed)
    }

    /// Adds a page to a temporary file. Its first access is this write, because the page is new.
    ///
    /// # Errors
    /// If the instance is not open.
    pub fn append(&mut self, instance: Instance, page: Page) -> Result<u32, AccessError> {
        let file = self.file_of(instance)? as usize;
        let traced = &mut self.files[file];
        let Pages::Temporary(pages) = &mut traced.pages else {
            return Err(AccessError::ReadOnly { file: traced.name.clone() });
        };
        let number = pages.len() as u32;
        pages.push(page);
        self.access(PageOp::Write { instance: instance.0, page: number });
        Ok(number)
    }

    /// The number of pages of an open file, including its header; no access.
    ///
    /// # Errors
    /// If the instance is not open.
    pub fn pages(&self, instance: Instance) -> Result<u32, AccessError> {
        Ok(self.files[self.file_of(instance)? as usize].pages.all().len() as u32)
    }

    /// The name of an open file.
    ///
    /// # Errors
    /// If the instance is not open.
    pub fn name(&self, instance: Instance) -> Result<&str, AccessError> {
        Ok(&self.files[self.file_of(instance)? as usize].name)
    }

    /// Uses the processor for `times` operations of a kind.
    pub fn work(&mut self, times: u64, cost: impl FnOnce(&CpuModel) -> u64) {
        self.now_ns += times * cost(&self.cpu);
    }

    /// Ends the query. Open instances are closed, the last first.
    pub fn finish(mut self, query: &str, hot_set_pages: u32) -> QueryTrace {
        for number in (0..self.instances.len() as u32).rev() {
            // An error means that the instance is closed already.
            let _ = self.close(Instance(number));
        }
        let files = self.files.iter().map(|file| TracedFile {
            name: file.name.clone(),
            pages: file.pages.all().len() as u32,
            temporary: matches!(file.pages, Pages::Temporary(_)),
        });
        QueryTrace {
            query: query.to_owned(),
            files: files.collect(),
            hot_set_pages,
            records: self.records,
            cpu_ns: self.now_ns,
        }
    }

    fn begin(&mut self, file: u32, set: LocalitySet) -> Instance {
        let instance = self.instances.len() as u32;
        self.instances.push(Some(file));
        let LocalitySet { pattern, pages, replacement } = set;
        self.record(PageOp::Open { instance, file, pattern, set_pages: pages, replacement });
        Instance(instance)
    }

    fn header(&mut self, file: u32, access: impl FnOnce(u32) -> PageOp) {
        let Instance(instance) = self.begin(file, HEADER_SET);
        self.access(access(instance));
        self.record(PageOp::Close { instance });
        self.instances[instance as usize] = None;
    }

    fn access(&mut self, op: PageOp) {
        self.record(op);
        self.work(1, |cpu| cpu.page_ns);
    }

    fn record(&mut self, op: PageOp) {
        self.records.push(PageRecord { cpu_ns: self.now_ns, op });
    }

    fn file_of(&self, Instance(instance): Instance) -> Result<u32, AccessError> {
        self.instances.get(instance as usize).copied().flatten().ok_or(AccessError::NotOpen { instance })
    }
}

impl Traced {
    fn no_page(&self, page: u32) -> AccessError {
        AccessError::NoPage { file: self.name.clone(), page, pages: self.pages.all().len() as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SET: LocalitySet =
        LocalitySet { pattern: Pattern::LoopingSequential, pages: 7, replacement: LocalReplacement::Mru };

    fn file(name: &str) -> File {
        File::new(name, vec![Page::empty(), Page::empty()])
    }

    #[test]
    fn what_is_done_is_recorded_with_its_time() {
        let mut tracer =
            Tracer::new(CpuModel { query_ns: 100, file_ns: 10, page_ns: 1, ..CpuModel::default() });
        let instance = tracer.open(&file("stored"), SET);
        tracer.read(instance, 1).unwrap();
        tracer.work(3, |_| 1000);
        tracer.close(instance).unwrap();
        let trace = tracer.finish("test", 9);
        let open = |instance, set: LocalitySet| PageOp::Open {
            instance,
            file: 0,
            pattern: set.pattern,
            set_pages: set.pages,
            replacement: set.replacement,
        };
        let expected = [
            (110, open(0, HEADER_SET)),
            (110, PageOp::Read { instance: 0, page: 0 }),
            (111, PageOp::Close { instance: 0 }),
            (111, open(1, SET)),
            (111, PageOp::Read { instance: 1, page: 1 }),
            (3112, PageOp::Close { instance: 1 }),
        ];
        assert!(trace.records.iter().map(|r| (r.cpu_ns, r.op)).eq(expected), "{:?}", trace.records);
        assert_eq!((trace.query.as_str(), trace.hot_set_pages, trace.cpu_ns), ("test", 9, 3112));
        assert_eq!(trace.files, [TracedFile { name: "stored".to_owned(), pages: 2, temporary: false }]);
    }

    #[test]
    fn a_file_opened_twice_is_one_file() {
        let mut tracer = Tracer::new(CpuModel::default());
        tracer.open(&file("a"), SET);
        tracer.open(&file("b"), SET);
        tracer.open(&file("a"), SET);
        let trace = tracer.finish("test", 1);
        assert_eq!(trace.files.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let closed = trace.records.iter().filter(|r| matches!(r.op, PageOp::Close { .. })).count();
        assert_eq!(closed, 6, "finishing closes what is open");
    }

    #[test]
    fn misuse_is_an_error_with_a_name() {
        let mut tracer = Tracer::new(CpuModel::default());
        let stored = tracer.open(&file("stored"), SET);
        let read_only = AccessError::ReadOnly { file: "stored".to_owned() };
        assert_eq!(tracer.update(stored, 1, |_| Some(())), Err(read_only.clone()));
        assert_eq!(tracer.append(stored, Page::empty()), Err(read_only));
        let temporary = tracer.create("temporary", SET);
        let no_page = AccessError::NoPage { file: "temporary".to_owned(), page: 1, pages: 1 };
        assert_eq!(tracer.update(temporary, 1, |_| Some(())), Err(no_page));
        tracer.close(stored).unwrap();
        let closed = AccessError::NotOpen { instance: stored.0 };
        assert_eq!(tracer.close(stored), Err(closed.clone()));
        assert_eq!(tracer.read(stored, 1).unwrap_err(), closed);
    }
}
