//! Inside a crate, files and folders import each other in one direction: no cycle has more than three files, and folders are in
//! none but the listed ones.
//!
//! The test reads `use` declarations, and paths that begin with `crate::`, `super::` or `self::`, in code outside
//! tests. An import through a re-export counts as an import of the file that declares the name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum number of files in a cycle of imports.
const CYCLE_MAX: usize = 3;

/// A module by its path inside the crate: `["mechanism", "serve"]`. The root's path is empty.
type Module = Vec<String>;

/// The files of a crate by module.
struct Crate {
    files: BTreeMap<Module, String>,
}

impl Crate {
    fn read(src: &Path) -> Self {
        let mut files = BTreeMap::new();
        let mut folders = vec![src.to_path_buf()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).expect("the folder is there").flatten() {
                let path = entry.path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ext| ext == "rs") {
                    let text = fs::read_to_string(&path).expect("the file is readable");
                    files.insert(module_of(src, &path), code_of(&text));
                }
            }
        }
        Crate { files }
    }

    /// The modules that a file's code names.
    fn imports(&self, module: &Module) -> BTreeSet<Module> {
        let text = &self.files[module];
        let own = self.own_paths(text, module).into_iter().filter(|(_, public)| !public);
        let used = own.filter_map(|(path, _)| self.declares(&path, 0));
        used.filter(|target| target != module).collect()
    }

    /// All paths into the crate in a text, from its root on. The flag is set for re-exports.
    fn own_paths(&self, text: &str, module: &Module) -> Vec<(Module, bool)> {
        let mut paths = Vec::new();
        for (at, start) in starts(text) {
            let line = text[..at].rfind(['\n', ';', '}']).map_or(0, |end| end + 1);
            let before = text[line..at].trim();
            let public = before.starts_with("pub") && before.ends_with("use");
            // A `use` may begin with a child module; any other path begins with a keyword.
            let is_use = before == "use" || (before.starts_with("pub") && before.ends_with("use"));
            let mut base = match start {
                "crate" => Vec::new(),
                "self" => module.clone(),
                "super" => module[..module.len().saturating_sub(1)].to_vec(),
                child => [module.as_slice(), &[child.to_owned()]].concat(),
            };
            let is_child = is_use && self.files.contains_key(&base);
            if !is_child && !matches!(start, "crate" | "self" | "super") {
                continue;
            }
            let mut rest = &text[at + start.len()..];
            while let Some(behind) = rest.strip_prefix("::super") {
                base.pop();
                rest = behind;
            }
            expand(rest.strip_prefix("::").unwrap_or(""), &base, public, &mut paths);
        }
        paths
    }

    /// The module that declares the name of a path: the deepest module on the path, or the module from which that
    /// one imports the name.
    fn declares(&self, path: &Module, depth: usize) -> Option<Module> {
        let len = (0..=path.len()).rev().find(|len| self.files.contains_key(&path[..*len]))?;
        let (module, names) = path.split_at(len);
        let module = module.to_vec();
        let Some(name) = names.first().filter(|_| depth < 8) else { return Some(module) };
        let exported = self.own_paths(&self.files[&module], &module);
        let from = exported.iter().find(|(path, public)| *public && path.last() == Some(name));
        from.and_then(|(path, _)| self.declares(path, depth + 1)).or(Some(module))
    }

    /// The groups of files that import each other directly or indirectly.
    fn cycles(&self) -> Vec<Vec<Module>> {
        groups(&self.files.keys().map(|module| (module.clone(), self.imports(module))).collect())
    }

    /// The same of folders: of the modules that the crate's root declares.
    fn cycles_of_folders(&self) -> Vec<Vec<Module>> {
        let mut direct: Imports = BTreeMap::new();
        let is_test =
            |module: &&Module| module.last().is_none_or(|file| file == "tests" || file.ends_with("_tests"));
        for module in self.files.keys().filter(|module| !is_test(module)) {
            let folder = module[..1].to_vec();
            let imported = self.imports(module).into_iter().filter(|other| !other.is_empty());
            let others = imported.map(|other| other[..1].to_vec()).filter(|other| *other != folder);
            let others: Vec<Module> = others.collect();
            direct.entry(folder).or_default().extend(others);
        }
        groups(&direct)
    }
}

/// The modules that each module imports.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// The groups of modules that import each other directly or indirectly.
fn groups(direct: &Imports) -> Vec<Vec<Module>> {
    let reached: BTreeMap<&Module, BTreeSet<Module>> =
        direct.keys().map(|module| (module, reach(module, direct))).collect();
    let mut groups: BTreeSet<Vec<Module>> = BTreeSet::new();
    for (module, there) in &reached {
        let back = there.iter().filter(|other| reached[other].contains(*module));
        let group: BTreeSet<Module> = back.cloned().collect();
        if group.len() > 1 {
            groups.insert(group.into_iter().collect());
        }
    }
    groups.into_iter().collect()
}

/// All modules that can be reached from a module by one or more imports.
fn reach(module: &Module, direct: &Imports) -> BTreeSet<Module> {
    let mut there: BTreeSet<Module> = BTreeSet::new();
    let mut next: Vec<Module> = direct[module].iter().cloned().collect();
    while let Some(module) = next.pop() {
        if there.insert(module.clone()) {
            next.extend(direct[&module].iter().cloned());
        }
    }
    there
}

fn module_of(src: &Path, path: &Path) -> Module {
    let inside = path.strip_prefix(src).expect("the file is in the crate").with_extension("");
    let mut module: Module = inside.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if module
        .last()
        .is_some_and(|last| last == "mod" || (module.len() == 1 && (last == "lib" || last == "main")))
    {
        module.pop();
    }
    module
}

/// The text without comments and without the tests at its end.
fn code_of(text: &str) -> String {
    let code = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The positions where paths begin: at a keyword or after `use`.
fn starts(text: &str) -> Vec<(usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    let mut found = Vec::new();
    let mut at = 0;
    for word in text.split_inclusive(|c: char| !is_word(c)) {
        let name = word.trim_end_matches(|c: char| !is_word(c));
        let behind = &text[at + name.len()..];
        let first = !text[..at].ends_with("::") && behind.starts_with("::");
        if !name.is_empty() && first {
            found.push((at, name));
        }
        at += word.len();
    }
    found
}

/// The paths of a tree such as `a::{b, c::d}`, each from `base` on.
fn expand(tree: &str, base: &[String], public: bool, paths: &mut Vec<(Module, bool)>) {
    let name = |c: char| c.is_alphanumeric() || c == '_' || c == '*';
    let len = tree.find(|c| !name(c)).unwrap_or(tree.len());
    let (head, rest) = tree.split_at(len);
    let mut path = base.to_vec();
    if !head.is_empty() && head != "self" && head != "*" {
        path.push(head.to_owned());
    }
    if let Some(rest) = rest.strip_prefix("::") {
        return expand(rest, &path, public, paths);
    }
    let Some(inside) = tree.strip_prefix('{') else { return paths.push((path, public)) };
    let (mut depth, mut start) = (0, 0);
    for (at, c) in inside.char_indices() {
        match c {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                let item = inside[start..at].trim();
                if !item.is_empty() {
                    expand(item, base, public, paths);
                }
                start = at + 1;
                if c == '}' {
                    return;
                }
            }
            '}' => depth -= 1,
            _ => {}
        }
    }
}

#[test]
fn files_of_a_crate_do_not_import_each_other_in_large_circles() {
    let mut wrong = Vec::new();
    for (name, content) in crates() {
        let cycles = content.cycles();
        let large: Vec<&Vec<Module>> = cycles.iter().filter(|cycle| cycle.len() > CYCLE_MAX).collect();
        if !large.is_empty() {
            wrong.push(format!("{name}: {large:?}"));
        }
    }
    assert!(wrong.is_empty(), "import cycles of more than {CYCLE_MAX} files:\n{}", wrong.join("\n"));
}

/// All crates: name and content.
fn crates() -> Vec<(String, Crate)> {
    let folder = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let entries = fs::read_dir(&folder).expect("the crates are there").flatten();
    let mut crates: Vec<(String, Crate)> = entries
        .filter(|entry| entry.path().join("src").is_dir())
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            (name, Crate::read(&entry.path().join("src")))
        })
        .collect();
    crates.sort_by(|(a, _), (b, _)| a.cmp(b));
    crates
}

#[test]
fn folders_have_floors() {
    let mut circles = Vec::new();
    for (name, content) in crates() {
        for circle in content.cycles_of_folders() {
            circles.push(format!("{name}: {}", circle.concat().join(" ")));
        }
    }
    assert!(circles.is_empty(), "folders that import each other: {circles:?}");
}

#[test]
fn cycles_are_found_through_trees_and_re_exports() {
    let crate_of = |files: &[(&str, &str)]| {
        let module =
            |path: &str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Crate { files: files.iter().map(|(path, text)| (module(path), code_of(text))).collect() }
    };
    let circle = crate_of(&[
        ("", "mod a;\npub use a::A;"),
        ("a", "use crate::b::{self, c::{C, D}};\nfn f() {}"),
        ("b", "pub mod c;"),
        ("b/c", "use crate::A;"),
    ]);
    let name = |path: &str| path.split('/').map(str::to_owned).collect::<Module>();
    assert_eq!(circle.cycles(), [vec![name("a"), name("b/c")]]);
    let line = crate_of(&[
        ("a", "use super::b::B; // use crate::c::C"),
        ("b", "fn f() { crate::c::g() }"),
        ("c", "\n#[cfg(test)]\nmod tests { use crate::a::A; }"),
    ]);
    assert!(line.cycles().is_empty());
    let folders = crate_of(&[
        ("a/one", "use crate::b::one::B;"),
        ("a/two", ""),
        ("b/one", ""),
        ("b/two", "use crate::a::two::A;"),
        ("c", "use crate::a::one::O;"),
    ]);
    assert!(folders.cycles().is_empty());
    assert_eq!(folders.cycles_of_folders(), [vec![name("a"), name("b")]]);
    assert_eq!(line.imports(&name("b")), [name("c")].into());
}
