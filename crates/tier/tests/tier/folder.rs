//! A folder in front of tapes, played by scripts. A recall mounts the file's tape, which takes longer if another
//! tape is mounted, and adds a line to a log. The "tape" is a folder with the contents. A file that is not recalled
//! has holes instead of data, like a stub.

use std::fs::{self, File, FileTimes};
use std::path::{Path, PathBuf};
use std::time::Duration;

use coscan_tier::TierConfig;

/// The folder with its tapes.
#[derive(Debug)]
pub struct Hsm {
    dir: PathBuf,
}

impl Hsm {
    /// A folder that another process has set up.
    pub fn of(dir: &Path) -> Hsm {
        Hsm { dir: dir.to_owned() }
    }

    /// Moves the Parquet files below `files` to `tapes` tapes, in the order of their names.
    pub fn archive(dir: &Path, files: &Path, tapes: usize, recall: Duration, switch: Duration) -> Hsm {
        let (tape, root) = (dir.join("tape"), dir.join("root"));
        let mut placement = String::new();
        let mut found = Vec::new();
        collect(files, &mut found);
        found.sort();
        for (at, path) in found.iter().enumerate() {
            let below = path.strip_prefix(files).unwrap();
            for folder in [&tape, &root] {
                fs::create_dir_all(folder.join(below).parent().unwrap()).unwrap();
            }
            fs::copy(path, tape.join(below)).unwrap();
            stub(path, &root.join(below));
            placement += &format!("{},T{},{}\n", below.display(), at % tapes, at * 1_000_000);
        }
        fs::write(dir.join("placement.csv"), placement).unwrap();
        let script = format!(
            "#!/bin/sh\n\
             # One drive: recalls queue for it.\n\
             exec 9>{dir}/drive; flock 9\n\
             file=${{1#{root}/}}\n\
             tape=$(grep \"^$file,\" {dir}/placement.csv | cut -d, -f2)\n\
             [ -e {dir}/broken ] && {{ echo tape $tape is broken >&2; exit 3; }}\n\
             # Until somebody removes the file, or everything.\n\
             while [ -e {dir}/hang ]; do sleep 0.05; done\n\
             while [ -e {dir}/hang-after ] && [ $(grep -c ^recall {dir}/log) -ge $(cat {dir}/hang-after) ]; do sleep 0.05; done\n\
             [ -e {dir}/lie.sh ] && . {dir}/lie.sh\n\
             if [ \"$(cat {dir}/mounted 2>/dev/null)\" != \"$tape\" ]; then\n\
               echo \"mount $tape\" >> {dir}/log; echo $tape > {dir}/mounted; sleep {switch}\n\
             fi\n\
             sleep {recall}\n\
             # Length and time stay as they are, also while it comes; it becomes another inode, as with some systems.\n\
             cp {tape}/$file {dir}/coming && touch -r $1 {dir}/coming && mv -f {dir}/coming $1\n\
             echo \"recall $file\" >> {dir}/log\n",
            dir = dir.display(),
            root = root.canonicalize().unwrap().display(),
            tape = tape.display(),
            switch = switch.as_secs_f64(),
            recall = recall.as_secs_f64(),
        );
        fs::write(dir.join("recall.sh"), script).unwrap();
        let release = format!("echo \"release ${{1##*/}}\" >> {}/log\n", dir.display());
        fs::write(dir.join("release.sh"), release).unwrap();
        Hsm { dir: dir.to_owned() }
    }

    /// The folder as users see it.
    pub fn root(&self) -> PathBuf {
        self.dir.join("root")
    }

    /// The folder of the contents.
    pub fn tape(&self) -> PathBuf {
        self.dir.join("tape")
    }

    /// Makes all files stubs again. Length and time stay, because they identify the version.
    pub fn release_all(&self) {
        let mut files = Vec::new();
        collect(&self.root(), &mut files);
        files.iter().for_each(|path| stub(path, path));
    }

    /// Makes later recalls fail (`broken`), hang (`hang`), or work (`None`).
    pub fn set_fault(&self, fault: Option<&str>) {
        for name in ["broken", "hang", "hang-after"] {
            let _ = fs::remove_file(self.dir.join(name));
        }
        if let Some(name) = fault {
            fs::write(self.dir.join(name), "").unwrap();
        }
    }

    /// Makes later recalls run these shell lines first, which may end the recall. `$1` is the file, `$tape` its
    /// tape's name, `$contents` the file's contents, `$dir` the folder of all.
    pub fn lie(&self, lines: Option<&str>) {
        let script = self.dir.join("lie.sh");
        match lines {
            Some(lines) => {
                let (dir, tape) = (self.dir.display(), self.tape().display().to_string());
                fs::write(script, format!("dir={dir}; contents={tape}/$file\n{lines}\n")).unwrap();
            }
            None => fs::remove_file(script).unwrap(),
        }
    }

    /// The definition with a command `online`, which compares the file with its contents.
    pub fn config_online(&self, more: &str) -> TierConfig {
        let (dir, root, tape) = (self.dir.display(), self.root().canonicalize().unwrap(), self.tape());
        let script = format!("cmp -s $1 {}/${{1#{}/}}\n", tape.display(), root.display());
        fs::write(self.dir.join("online.sh"), script).unwrap();
        let online = format!("online = ['sh', '{dir}/online.sh', '{{path}}']\npoll = '100ms'\n");
        TierConfig::parse(&(self.definition("cache", more) + &online), &self.dir).unwrap()
    }

    /// Makes the recall after this number of recalls hang.
    pub fn hang_after(&self, recalls: usize) {
        fs::write(self.dir.join("log"), "").unwrap();
        fs::write(self.dir.join("hang-after"), recalls.to_string()).unwrap();
    }

    /// The log, in order: `mount T`, `recall FILE`, `release FILE`.
    pub fn log(&self) -> Vec<String> {
        let text = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The number of log lines with this prefix.
    pub fn count(&self, what: &str) -> usize {
        self.log().iter().filter(|line| line.starts_with(what)).count()
    }

    /// The definition of the tier.
    pub fn config(&self, cache: &str, more: &str) -> TierConfig {
        TierConfig::parse(&self.definition(cache, more), &self.dir).unwrap()
    }

    /// The text of the definition.
    pub fn definition(&self, cache: &str, more: &str) -> String {
        let dir = self.dir.display();
        format!(
            "name = 'tape'\nroot = '{dir}/root'\ncache = '{cache}'\ntimeout = '600s'\n{more}\n\
             [folder]\nrecall = ['sh', '{dir}/recall.sh', '{{path}}']\nrelease = ['sh', '{dir}/release.sh', '{{path}}']\n\
             placement = 'placement.csv'\nswitch = '1s'\nseek = '2s'\n"
        )
    }
}

fn collect(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            found.push(path);
        }
    }
}

/// Makes a file of the same length and time without data.
pub fn stub(of: &Path, at: &Path) {
    let meta = fs::metadata(of).unwrap();
    let file = File::create(at).unwrap();
    file.set_len(meta.len()).unwrap();
    file.set_times(FileTimes::new().set_modified(meta.modified().unwrap())).unwrap();
}
