//! A timeline in Chrome's trace event format: a JSON array with an event a line, which viewers read
//! without its end. So a file is readable while ranks write it, and after they were killed.
//!
//! Processes of one machine append to one file. Each holds a shared lock on it, which the kernel
//! releases when the process ends however it ends; a process that finds no lock starts the file
//! anew.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::clock::now;
use super::pattern::{Pattern, host};
use crate::error::Site;
use crate::lock::Mutex;

/// The row of a rank's host, among those of its streams.
const HOST: u64 = 0;

/// How many streams with names are remembered before they are used.
const MOST_NAMES: usize = 10_000;

pub(super) struct Timeline {
    pattern: Pattern,
    rows: Mutex<Rows>,
}

#[derive(Default)]
struct Rows {
    files: HashMap<PathBuf, Option<Arc<File>>>,
    ranks: HashMap<u32, OfRank>,
    /// The names that streams were given, by row.
    streams: HashMap<u64, Arc<str>>,
}

/// A rank's rows.
struct OfRank {
    file: Option<Arc<File>>,
    /// Those that were written, with their names.
    named: HashMap<u64, Arc<str>>,
    /// How many streams without a name there are.
    nameless: usize,
}

impl OfRank {
    /// The name of a row, if it is to be written.
    fn name(&mut self, tid: u64, given: &HashMap<u64, Arc<str>>) -> Option<Arc<str>> {
        let name = match (given.get(&tid), self.named.get(&tid)) {
            (Some(given), Some(known)) if given == known => return None,
            (None, Some(_)) => return None,
            (Some(given), _) => given.clone(),
            (None, None) if tid == HOST => "host".into(),
            (None, None) => {
                self.nameless += 1;
                format!("stream {}", self.nameless).into()
            }
        };
        self.named.insert(tid, name.clone());
        Some(name)
    }
}

impl Timeline {
    pub(super) fn new(pattern: Pattern) -> Self {
        Self { pattern, rows: Mutex::default() }
    }

    /// The host begins to wait.
    pub(super) fn wait(&self, row: u32, communicator: &str, operation: &str, site: Site) {
        let args = json!({ "communicator": communicator, "at": place(site) });
        self.write(row, HOST, |tid| {
            json!({
                "name": operation, "cat": "wait", "ph": "B", "cname": "terrible",
                "pid": row, "tid": tid, "ts": micros(now()), "args": args,
            })
        });
    }

    /// The host's last wait is over.
    pub(super) fn wait_over(&self, row: u32) {
        self.end(row, None, now());
    }

    /// Names a stream, from its next event on.
    pub(super) fn name(&self, stream: u64, name: &str) {
        let mut rows = self.rows.lock();
        let names = &mut rows.streams;
        if names.len() >= MOST_NAMES {
            // A program that opens streams all the time: those that are used have their names.
            names.clear();
        }
        names.insert(tid(Some(stream)), name.into());
    }

    /// Something begins: on the host, or on a stream.
    pub(super) fn begin(&self, row: u32, on: Option<u64>, (name, at): (&str, u64), args: &Args) {
        self.write(row, tid(on), |tid| {
            let category = if on.is_some() { "operation" } else { "enqueue" };
            json!({
                "name": name, "cat": category, "ph": "B",
                "pid": row, "tid": tid, "ts": micros(at), "args": args,
            })
        });
    }

    /// What began last there is over.
    pub(super) fn end(&self, row: u32, on: Option<u64>, at: u64) {
        self.write(
            row,
            tid(on),
            |tid| json!({ "ph": "E", "pid": row, "tid": tid, "ts": micros(at) }),
        );
    }

    /// Something happened to a rank.
    pub(super) fn instant(&self, row: u32, communicator: &str, name: &str, text: &str) {
        let args = json!({ "communicator": communicator, "text": text });
        self.write(row, HOST, |tid| {
            json!({
                "name": name, "cat": "event", "ph": "i", "s": "p",
                "pid": row, "tid": tid, "ts": micros(now()), "args": args,
            })
        });
    }

    /// Writes an event, after the names of its rows if they are new.
    fn write(&self, row: u32, tid: u64, event: impl FnOnce(u64) -> Value) {
        let mut rows = self.rows.lock();
        let Rows { files, ranks, streams } = &mut *rows;
        let rank = ranks.entry(row).or_insert_with(|| {
            let path = self.pattern.of(row);
            let file = files.entry(path).or_insert_with_key(|path| opened(path)).clone();
            OfRank { file, named: HashMap::new(), nameless: 0 }
        });
        let Some(file) = rank.file.clone() else { return };
        let mut text = String::new();
        if rank.named.is_empty() {
            let name = format!("rank {row} ({}, process {})", host(), std::process::id());
            line(&mut text, &metadata(row, HOST, "process_name", &json!({ "name": name })));
            line(
                &mut text,
                &metadata(row, HOST, "process_sort_index", &json!({ "sort_index": row })),
            );
        }
        if let Some(name) = rank.name(tid, streams) {
            line(&mut text, &metadata(row, tid, "thread_name", &json!({ "name": &*name })));
        }
        line(&mut text, &event(tid));
        // One call, so that lines of several processes do not mix.
        if let Err(error) = (&*file).write_all(text.as_bytes()) {
            log::error!("the timeline cannot be written any more: {error}");
            ranks.values_mut().for_each(|rank| rank.file = None);
        }
    }
}

/// What a viewer shows beside an event.
pub(super) type Args = Map<String, Value>;

fn tid(stream: Option<u64>) -> u64 {
    stream.map_or(HOST, |stream| stream.max(1))
}

fn metadata(row: u32, tid: u64, name: &str, args: &Value) -> Value {
    json!({ "name": name, "ph": "M", "pid": row, "tid": tid, "args": args })
}

fn line(text: &mut String, event: &Value) {
    *text += &event.to_string();
    *text += ",\n";
}

/// The format's unit.
fn micros(nanos: u64) -> f64 {
    nanos as f64 / 1e3
}

/// `src/main.rs:17`
pub(super) fn place(site: Site) -> String {
    if site.is_known() { format!("{}:{}", site.file(), site.line()) } else { String::new() }
}

fn opened(path: &Path) -> Option<Arc<File>> {
    let file = open(path);
    file.inspect_err(|error| log::error!("{} cannot be written: {error}", path.display()))
        .ok()
        .map(Arc::new)
}

/// Opens a file that other processes may be writing.
fn open(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    match file.try_lock() {
        // Nobody writes it: what is there is of an earlier run. Between the two locks another
        // process may do the same, and nothing but this line is lost and written again.
        Ok(()) => {
            file.set_len(0)?;
            file.write_all(b"[\n")?;
            file.unlock()?;
            file.lock_shared()?;
        }
        Err(TryLockError::WouldBlock) => file.lock_shared()?,
        Err(TryLockError::Error(error)) => return Err(error),
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::open;

    #[test]
    fn a_file_is_joined_while_it_is_written_and_new_afterwards() {
        let path = std::env::temp_dir().join(format!("timeline-{}.json", std::process::id()));
        fs::write(&path, "of an earlier run").expect("a temporary file");
        let first = open(&path).expect("it opens");
        let second = open(&path).expect("it opens");
        for mut file in [&first, &second, &first] {
            std::io::Write::write_all(&mut file, b"x\n").expect("it is written");
        }
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "[\nx\nx\nx\n");
        drop((first, second));
        let third = open(&path).expect("it opens");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "[\n");
        drop(third);
        fs::remove_file(&path).expect("it is there");
    }
}
