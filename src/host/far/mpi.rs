//! The calls of MPI's. All are made by the courier's thread, except for [`adopt`].

use std::ffi::{c_int, c_void};
use std::ptr;

use mpi::ffi;

use super::{Address, Link, Message, Spot};
use crate::lock::Mutex;

/// A communicator that is never freed: the program's end frees it.
struct Comm {
    raw: ffi::MPI_Comm,
    spot: Spot,
    /// How many tags it has: an even number.
    tags: u64,
}

// SAFETY: a handle, which any thread may pass to MPI as far as MPI was started for threads, which
// `begin` checks.
unsafe impl Send for Comm {}

static COMMS: Mutex<Vec<Comm>> = Mutex::new(Vec::new());

/// What a launcher of MPI's gives its processes, one of these each.
const LAUNCHED: [&str; 4] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMI_RANK", "PMIX_RANK"];

/// The largest tag that every MPI has.
const LEAST_TAG: c_int = 32767;

/// This process's places in MPI communicators.
pub(super) fn spots() -> Vec<Spot> {
    COMMS.lock().iter().map(|comm| comm.spot).collect()
}

/// Starts MPI, unless the program has. Returns whether it did, so that it must end it too.
pub(super) fn begin() -> Result<bool, String> {
    let mut is_started = 0;
    // SAFETY: it may be called at any time, with a place for its answer.
    unsafe { ffi::MPI_Initialized(&raw mut is_started) };
    if is_started != 0 {
        return for_threads().map(|()| false);
    }
    if !LAUNCHED.iter().any(|name| std::env::var_os(name).is_some()) {
        return Err("no launcher of MPI's started this process: start all by `mpirun`".to_owned());
    }
    let mut level = 0;
    // SAFETY: MPI is not started; this thread makes all later calls.
    let code = unsafe {
        let level = &raw mut level;
        ffi::MPI_Init_thread(ptr::null_mut(), ptr::null_mut(), ffi::RSMPI_THREAD_FUNNELED, level)
    };
    works(code, "MPI does not start")?;
    // SAFETY: MPI's constants, which are set now.
    let (world, own) = unsafe { (ffi::RSMPI_COMM_WORLD, ffi::RSMPI_COMM_SELF) };
    // A process that dies must not end the others.
    return_errors(world);
    return_errors(own);
    let mut job = [0; 8];
    getrandom::fill(&mut job).map_err(|error| error.to_string())?;
    // SAFETY: a communicator of all processes, which all make this call, and eight bytes.
    let code = unsafe {
        ffi::MPI_Bcast(job.as_mut_ptr().cast::<c_void>(), 8, ffi::RSMPI_UINT8_T, 0, world)
    };
    works(code, "MPI_Bcast fails")?;
    let size = add(world, u64::from_le_bytes(job))?;
    match size {
        1 => Err("MPI knows of this process alone: start all by one `mpirun`, of the MPI that the program was built with".to_owned()),
        _ => Ok(true),
    }
}

/// Whether the program started MPI so that the courier may use it.
fn for_threads() -> Result<(), String> {
    let mut level = 0;
    // SAFETY: MPI is started.
    unsafe { ffi::MPI_Query_thread(&raw mut level) };
    // SAFETY: MPI's constant.
    if level < unsafe { ffi::RSMPI_THREAD_MULTIPLE } {
        return Err("the program started MPI for one thread: start it by `mpi::initialize_with_threading(Threading::Multiple)`".to_owned());
    }
    match COMMS.lock().is_empty() {
        true => Err("the program started MPI itself: take the seats by `Seat::mpi`".to_owned()),
        false => Ok(()),
    }
}

/// Lets messages travel by a copy of this communicator. All of its processes call it, with the same
/// number, which no other communicator has.
pub(crate) fn adopt(comm: ffi::MPI_Comm, job: u64) {
    if let Err(why) = add(comm, job) {
        log::warn!("ranks without GPUs cannot use this MPI communicator: {why}");
    }
}

/// Returns how many processes it has.
fn add(comm: ffi::MPI_Comm, job: u64) -> Result<c_int, String> {
    let (mut raw, mut rank, mut size) = (comm, 0, 0);
    // SAFETY: a communicator, which all of its processes copy now.
    works(unsafe { ffi::MPI_Comm_dup(comm, &raw mut raw) }, "MPI_Comm_dup fails")?;
    return_errors(raw);
    // SAFETY: the communicator was just made.
    unsafe { ffi::MPI_Comm_rank(raw, &raw mut rank) };
    // SAFETY: as above.
    unsafe { ffi::MPI_Comm_size(raw, &raw mut size) };
    let (mut most, mut is_known): (*mut c_int, c_int) = (ptr::null_mut(), 0);
    let (key, to) = (ffi::MPI_TAG_UB as c_int, (&raw mut most).cast());
    // SAFETY: the attribute's value is a pointer.
    unsafe { ffi::MPI_Comm_get_attr(raw, key, to, &raw mut is_known) };
    let most = match is_known != 0 && !most.is_null() {
        // SAFETY: the number is MPI's, which keeps it.
        true => unsafe { *most },
        false => LEAST_TAG,
    };
    let (spot, tags) = (Spot { job, rank }, (u64::from(most.unsigned_abs()) + 1) & !1);
    COMMS.lock().push(Comm { raw, spot, tags });
    Ok(size)
}

fn return_errors(comm: ffi::MPI_Comm) {
    // SAFETY: a communicator, and MPI's constant.
    unsafe { ffi::MPI_Comm_set_errhandler(comm, ffi::RSMPI_ERRORS_RETURN) };
}

fn works(code: c_int, what: &str) -> Result<(), String> {
    let succeeds = code == ffi::MPI_SUCCESS as c_int;
    if succeeds { Ok(()) } else { Err(format!("{what}: MPI's error {code}")) }
}

/// Messages that MPI carries.
#[derive(Default)]
pub(super) struct Carried {
    requests: Vec<ffi::MPI_Request>,
    /// Numbers of those that are complete.
    complete: Vec<c_int>,
}

impl Carried {
    /// Starts a message, as the last one.
    ///
    /// # Safety
    /// Its memory stays until the message is complete, and nothing else uses it meanwhile.
    pub(super) unsafe fn start(&mut self, message: &Message) -> Result<(), String> {
        let Message { link: Link { comm, rank }, is_sent, number, bytes, .. } = *message;
        let Address(at) = message.at;
        let comms = COMMS.lock();
        let Some(comm) = comms.get(comm) else { return Err("no such communicator".to_owned()) };
        let tag = (number % comm.tags) as c_int;
        let bytes = c_int::try_from(bytes).map_err(|_| "too many bytes for MPI".to_owned())?;
        // SAFETY: MPI's constant. It is null until MPI overwrites it.
        let mut request = unsafe { ffi::RSMPI_REQUEST_NULL };
        let to = &raw mut request;
        // SAFETY: MPI's constant.
        let (at, kind) = (at.cast::<c_void>(), unsafe { ffi::RSMPI_UINT8_T });
        let code = match is_sent {
            // SAFETY: the caller's promise.
            true => unsafe { ffi::MPI_Isend(at, bytes, kind, rank, tag, comm.raw, to) },
            // SAFETY: the caller's promise.
            false => unsafe { ffi::MPI_Irecv(at, bytes, kind, rank, tag, comm.raw, to) },
        };
        works(code, "MPI cannot carry its data")?;
        self.requests.push(request);
        Ok(())
    }

    /// Gives up receiving message `at`. It completes soon, in one way or the other.
    pub(super) fn cancel(&mut self, at: usize) {
        if let Some(request) = self.requests.get_mut(at) {
            // SAFETY: a request that is not complete.
            unsafe { ffi::MPI_Cancel(request) };
        }
    }

    /// The messages that have completed, from the last to the first: each is removed, and the last
    /// one takes its place. And whether they were carried.
    pub(super) fn completed(&mut self) -> (Vec<usize>, Result<(), String>) {
        let (mut count, requests) = (0, self.requests.len());
        self.complete.resize(requests, 0);
        // SAFETY: as many requests, and room for as many numbers.
        let code = unsafe {
            let (requests, numbers) = (self.requests.as_mut_ptr(), self.complete.as_mut_ptr());
            let count = &raw mut count;
            ffi::MPI_Testsome(
                self.complete.len() as c_int,
                requests,
                count,
                numbers,
                ffi::RSMPI_STATUSES_IGNORE,
            )
        };
        // Without requests the count is undefined.
        let count = usize::try_from(count).unwrap_or(0).min(requests);
        let mut complete: Vec<usize> =
            self.complete[..count].iter().map(|&at| at as usize).collect();
        complete.sort_unstable_by(|one, other| other.cmp(one));
        for &at in &complete {
            self.requests.swap_remove(at);
        }
        (complete, works(code, "MPI did not carry its data"))
    }
}

/// Ends MPI, once all processes do.
pub(super) fn end() {
    // SAFETY: the thread that started it.
    unsafe { ffi::MPI_Finalize() };
}
