//! Known locations of a tier's fragments on media, and the model of its devices.
//!
//! The placement of a folder is a CSV file (`path,medium,position`) that the owner makes from the output of the HSM
//! or LTFS. Files that are not listed count as one medium of their own, in the order of names.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use coscan_media::model::{Archive, Robot};
use coscan_media::{Library, MediumId, Price, Span};

use crate::config::{Kind, TierConfig};
use crate::error::TierError;

/// Larger than any real archive or tape. The model needs a number.
const MEDIUM_BYTES: u64 = 1 << 60;

/// The allowed heading of a placement file.
const HEADING: [&str; 3] = ["path", "medium", "position"];

/// The medium of files that the placement does not list.
const UNKNOWN: &str = "";

/// Media by name, and files on them.
#[derive(Debug, Default)]
pub struct Placement {
    media: Vec<String>,
    files: HashMap<String, (MediumId, u64)>,
}

impl Placement {
    /// Reads the placement that the definition names.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or if a line is wrong.
    pub fn read(config: &TierConfig) -> Result<Self, TierError> {
        let mut placement = Placement { media: vec![UNKNOWN.to_owned()], files: HashMap::new() };
        let Kind::Folder(folder) = &config.kind else { return Ok(placement) };
        let Some(path) = &folder.placement else { return Ok(placement) };
        let text = fs::read_to_string(path).map_err(TierError::io("read the placement", path))?;
        let is_heading = |line: &str| line.split(',').map(str::trim).eq(HEADING);
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        for (number, line) in lines.skip_while(|(_, line)| is_heading(line)) {
            placement.add(&config.root, line).map_err(|problem| TierError::Config {
                tier: config.name.clone(),
                setting: format!("'placement' ({}, line {})", path.display(), number + 1),
                problem,
            })?;
        }
        Ok(placement)
    }

    /// Number of media, the one of unlisted files included.
    pub fn media(&self) -> usize {
        self.media.len()
    }

    /// The name of a medium. `None` for the medium of unlisted files.
    pub fn name(&self, medium: MediumId) -> Option<&str> {
        self.media.get(medium.0 as usize).map(String::as_str).filter(|name| *name != UNKNOWN)
    }

    /// The medium and the position of a file.
    pub fn of(&self, location: &str) -> (MediumId, u64) {
        self.files.get(location).copied().unwrap_or_default()
    }

    fn add(&mut self, root: &url::Url, line: &str) -> Result<(), String> {
        let wanted = || "is no path, medium and position (a number) with commas between them".to_owned();
        let mut parts = line.rsplitn(3, ',').map(str::trim);
        let (position, medium, path) = (parts.next(), parts.next(), parts.next());
        let (Some(position), Some(medium), Some(path)) = (position, medium, path) else {
            return Err(wanted());
        };
        let position: u64 = position.parse().map_err(|_| wanted())?;
        let root = root.to_file_path().map_err(|()| "is for folders only".to_owned())?;
        let path = root.join(path);
        let location =
            object_store::path::Path::from_absolute_path(&path).map_err(|error| error.to_string())?;
        let known = self.media.iter().position(|name| name == medium).unwrap_or_else(|| {
            self.media.push(medium.to_owned());
            self.media.len() - 1
        });
        let known = u32::try_from(known).map_err(|_| "has too many media".to_owned())?;
        if position > MEDIUM_BYTES {
            return Err(format!("has a position beyond {MEDIUM_BYTES}"));
        }
        match self.files.insert(location.to_string(), (MediumId(known), position)) {
            None => Ok(()),
            Some(_) => Err(format!("names {} a second time", Path::new(&path).display())),
        }
    }
}

/// The device model, for forecasts and for the scheduler.
///
/// # Errors
///
/// If a number is beyond the model's bounds.
pub fn library(config: &TierConfig, placement: &Placement) -> Result<Library, TierError> {
    let library = match &config.kind {
        Kind::Archive(archive) => Library::archive(Archive {
            restores_at_once: archive.at_once,
            restore: span(archive.expected),
            bytes_per_s: archive.transfer,
            per_request: price(archive.price_request),
            per_gib: price(archive.price_gb * (1_u64 << 30) as f64 / 1e9),
        }),
        Kind::Folder(folder) => Library::robot(Robot {
            drives: folder.drives,
            arms: 1,
            switch: span(folder.switch),
            exchange: coscan_media::Span::ZERO,
            seek_startup: span(folder.seek),
            seek_bytes_per_s: None,
            bytes_per_s: folder.transfer,
            medium_bytes: MEDIUM_BYTES,
            media: u32::try_from(placement.media()).unwrap_or(u32::MAX),
        }),
    };
    library.map_err(|error| TierError::Config {
        tier: config.name.clone(),
        setting: "[archive] or [folder]".to_owned(),
        problem: error.to_string(),
    })
}

/// The duration in the scheduler's unit.
pub fn span(time: Duration) -> Span {
    Span::from_nanos(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX))
}

fn price(amount: f64) -> Price {
    Price::from_millionths((amount * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_placement_names_media_and_its_mistakes_their_line() {
        let dir = tempfile::tempdir().expect("a folder");
        let placement = |lines: &str| {
            fs::write(dir.path().join("p.csv"), lines).expect("written");
            let text = "name='t'\nroot='.'\ncache='c'\ncache_bytes='1GB'\n[folder]\nrecall=['r','{path}']\nplacement='p.csv'\n";
            Placement::read(&TierConfig::parse(text, dir.path()).expect("a definition"))
        };
        let read = placement("path, medium,position\na.parquet,T1,0\n\nsub/b,c.parquet, T2 ,77\n");
        let read = read.expect("a placement");
        let root = dir.path().canonicalize().expect("a folder");
        let at = |path: &str| {
            let path = object_store::path::Path::from_absolute_path(root.join(path)).expect("a path");
            let (medium, position) = read.of(path.as_ref());
            (read.name(medium).map(str::to_owned), position)
        };
        assert_eq!(at("a.parquet"), (Some("T1".to_owned()), 0));
        assert_eq!(at("sub/b,c.parquet"), (Some("T2".to_owned()), 77));
        assert_eq!(at("other.parquet"), (None, 0));
        for wrong in ["a,T1", "a,T1,x", "a,T1,0\na,T2,0"] {
            assert!(placement(wrong).expect_err(wrong).to_string().contains("line"), "{wrong}");
        }
    }
}
