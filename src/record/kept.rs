//! The journals of this process, and the thread that looks at them.

use std::any::Any;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use super::flight::FlightRecord;
use super::{FLIGHT, Journal, SETTINGS};
use crate::backend::Backend;
use crate::error::Error;
use crate::health::Health;
use crate::lock::Mutex;
use crate::own_thread;
use crate::quiet::Quiet;

/// How often the thread looks. What a killed process did last may be missing for so long.
const REST: Duration = Duration::from_millis(20);

/// A journal without its backend.
pub(crate) trait Recorded: Send + Sync {
    /// The rank that it is of.
    fn row(&self) -> u32;

    /// The journal itself.
    fn whole(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;

    /// Notes what has begun and ended meanwhile.
    fn look(&self);

    /// Compares the device's clock with the host's again, if that was long ago.
    fn renew(&self);

    /// Notes that what is running fails, without asking the device: a lock may be held.
    fn fails(&self);

    /// Adds what it holds to a record.
    fn add_to(&self, record: &mut FlightRecord);
}

#[derive(Default)]
struct Journals {
    all: Vec<Weak<dyn Recorded>>,
    is_watched: bool,
}

/// How many communicators of a rank that failed and are gone its records still have.
const GONE_KEPT: usize = 4;

/// By rank. The lock is held while a record is written.
static GONE: Mutex<Vec<(u32, FlightRecord)>> = Mutex::new(Vec::new());

static JOURNALS: Mutex<Option<Journals>> = Mutex::new(None);

/// Adds a journal, and starts the thread with the first.
pub(super) fn keep(journal: &Arc<dyn Recorded>) {
    let mut journals = JOURNALS.lock();
    let journals = journals.get_or_insert_default();
    journals.all.retain(|known| known.strong_count() > 0);
    journals.all.push(Arc::downgrade(journal));
    if !journals.is_watched {
        // Here, so that a program with a communicator survives the signal.
        let asked = asked();
        let thread = thread::Builder::new().name("typed-nccl record".to_owned());
        match thread.spawn(move || watch(asked.as_deref())) {
            Ok(_) => journals.is_watched = true,
            Err(error) => log::warn!("no thread for records: {error}"),
        }
    }
}

fn all() -> Vec<Arc<dyn Recorded>> {
    let journals = JOURNALS.lock();
    journals.iter().flat_map(|journals| &journals.all).filter_map(Weak::upgrade).collect()
}

/// A journal of the rank that uses a device, if only one rank of this process does.
pub(super) fn of_device<B: Backend>(ordinal: u32) -> Option<Arc<Journal<B>>> {
    let journals = all().into_iter().filter_map(|journal| journal.whole().downcast().ok());
    let mut of_it = journals.filter(|journal: &Arc<Journal<B>>| journal.ordinal() == ordinal);
    let first = of_it.next()?;
    of_it.all(|other| other.row() == first.row()).then_some(first)
}

/// Looks at all journals, and dumps flight records on a signal.
fn watch(asked: Option<&AtomicBool>) {
    own_thread::begin();
    let _quiet = Quiet::enter();
    loop {
        thread::sleep(REST);
        for journal in all() {
            journal.look();
            journal.renew();
        }
        if asked.is_some_and(|asked| asked.swap(false, Relaxed)) {
            let mut rows: Vec<u32> = all().iter().map(|journal| journal.row()).collect();
            rows.sort_unstable();
            rows.dedup();
            rows.into_iter().for_each(dump);
        }
    }
}

/// Set by SIGUSR2, if flight records are asked for. Without them the signal is the program's.
fn asked() -> Option<Arc<AtomicBool>> {
    SETTINGS.flight.as_ref()?;
    let asked = Arc::new(AtomicBool::new(false));
    #[cfg(unix)]
    if let Err(error) = signal_hook::flag::register(libc::SIGUSR2, asked.clone()) {
        log::warn!("SIGUSR2 does not dump flight records: {error}");
    }
    Some(asked)
}

/// Dumps the flight record of a rank whose communicator failed, the first time. If another thread
/// is at it, waits for that. Must be called without a lock held.
pub(crate) fn failed(health: &Health, error: &Error) {
    if SETTINGS.flight.is_some() {
        health.dump_once(|| {
            log::info!("rank {} of {}: {error}", health.rank(), health.name());
            dump(health.row());
        });
    }
}

/// Keeps what a communicator that failed did, for records that its rank writes once it is gone.
pub(crate) fn goes(journal: &impl Recorded) {
    if SETTINGS.flight.is_none() {
        return;
    }
    let row = journal.row();
    let mut part = FlightRecord::default();
    journal.add_to(&mut part);
    let mut gone = GONE.lock();
    let of_it = gone.iter().enumerate().filter(|(_, (of, _))| *of == row);
    if let Some((oldest, _)) = of_it.rev().nth(GONE_KEPT - 1) {
        gone.remove(oldest);
    }
    gone.push((row, part));
}

/// Writes the last operations of all communicators of a rank.
fn dump(row: u32) {
    let Some(pattern) = &SETTINGS.flight else { return };
    let path = pattern.of(row);
    // Held until the file is written: one of several threads writes it at a time.
    let gone = GONE.lock();
    let mut record = FlightRecord::default();
    for journal in all().iter().filter(|journal| journal.row() == row) {
        journal.look();
        journal.add_to(&mut record);
    }
    gone.iter().filter(|(of, _)| *of == row).for_each(|(_, part)| record.join(part));
    if record.is_empty() {
        return;
    }
    let written = write(&record, &path);
    drop(gone);
    match written {
        Ok(()) => log::warn!("rank {row}: flight record in {}", path.display()),
        Err(error) => log::error!("{FLIGHT}: {} cannot be written: {error}", path.display()),
    }
}

/// Replaces the file, so that nobody reads half of it.
fn write(record: &FlightRecord, path: &Path) -> io::Result<()> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder)?;
    }
    // A pipe or a device stays what it is.
    let is_file = fs::metadata(path).map_or(true, |found| found.is_file());
    let (Some(name), true) = (path.file_name(), is_file) else { return record.write(path) };
    let new = path.with_file_name(format!(".{}.{}", std::process::id(), name.to_string_lossy()));
    record.write(&new).and_then(|()| fs::rename(&new, path)).inspect_err(|_| {
        // It may not be there.
        let _ = fs::remove_file(&new);
    })
}
