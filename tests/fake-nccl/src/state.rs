//! The state of one copy of the library. One lock guards it, for the whole of each call.

use std::alloc;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::{CStr, CString, c_int};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use nccl_sys::{Function, NCCL_UNIQUE_ID_BYTES, Version, ncclResult_t, ncclWindow_t};

use crate::books::{Communicator, List, Operator, Window};
use crate::call::{Call, Value};
use crate::moves::{self, Member};
use crate::pointer::Place;
use crate::registered::{Pairs, Registration};
use crate::stamp;

/// A test's function to run before each call, with the called function's name: its bytes and their
/// number.
pub(crate) type Before = unsafe extern "C" fn(*const u8, usize);

/// The result of a call that was not told to fail.
pub(crate) type Answer = Result<(), Refusal>;

/// A call that NCCL's contract does not allow.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(crate) result: ncclResult_t,
    pub(crate) words: String,
}

impl Refusal {
    pub(crate) fn argument(words: impl Into<String>) -> Self {
        Self { result: ncclResult_t::ncclInvalidArgument, words: words.into() }
    }

    pub(crate) fn usage(words: impl Into<String>) -> Self {
        Self { result: ncclResult_t::ncclInvalidUsage, words: words.into() }
    }
}

/// A thread that has called.
#[derive(Default)]
pub(crate) struct Thread {
    /// How many threads had called before it.
    pub(crate) number: usize,
    /// Groups that are open.
    pub(crate) groups: usize,
    /// Its CUDA device.
    pub(crate) device: c_int,
    /// Communicators whose calls are in progress.
    pub(crate) going_on: Vec<usize>,
    /// The communicators of the open group, each with the capture of its stream.
    pub(crate) captures: Vec<(usize, u64)>,
}

/// Everything.
pub(crate) struct State {
    pub(crate) log: Vec<Call>,
    pub(crate) misuse: Vec<String>,
    pub(crate) version: c_int,
    /// The function to call before each call.
    pub(crate) before: Option<Before>,
    /// Whether windows are supported.
    pub(crate) has_windows: bool,
    /// Whether one-sided operations are supported.
    pub(crate) has_rma: bool,
    pub(crate) has_counted: bool,
    /// Whether device communicators are supported.
    pub(crate) has_device_api: bool,
    /// The best kind of network access for kernels, the best within a rail, and its reach.
    pub(crate) gin: (c_int, c_int, c_int),
    /// Whether there is multicast memory, and endpoints and teams for counted transfers.
    pub(crate) is_mapped: bool,
    /// The communicators of device communicators, by the number in their bytes.
    pub(crate) device_comms: BTreeMap<usize, usize>,
    /// The first rank's requirements, by the ranks' id and how many were made before.
    pub(crate) asked: HashMap<([u8; NCCL_UNIQUE_ID_BYTES], usize), Vec<u8>>,
    /// Results that calls were told to return, in order.
    told: HashMap<&'static str, VecDeque<ncclResult_t>>,
    /// Functions whose calls wait until their communicator is revoked.
    pub(crate) stuck: HashSet<&'static str>,
    /// Ranks and counts of split children.
    pub(crate) splits: VecDeque<(c_int, c_int)>,
    /// All error texts so far, as a caller may still read an old one.
    errors: Vec<CString>,
    threads: HashMap<ThreadId, Thread>,
    given: usize,
    /// The lists that contain each id.
    pub(crate) lists: HashMap<[u8; NCCL_UNIQUE_ID_BYTES], List>,
    /// The ranks that have come, by the first id.
    pub(crate) seats: HashSet<([u8; NCCL_UNIQUE_ID_BYTES], c_int)>,
    pub(crate) communicators: BTreeMap<usize, Communicator>,
    /// Communicators that move data.
    pub(crate) members: HashMap<usize, Arc<Member>>,
    /// Plain registrations.
    pub(crate) registrations: BTreeMap<usize, Registration>,
    /// Messages without the other side.
    pub(crate) pairs: Pairs,
    pub(crate) windows: BTreeMap<usize, Window>,
    /// Calls that poll non-blocking communicators and have not returned.
    pub(crate) polls: HashMap<usize, Vec<Function>>,
    /// Windows of non-blocking communicators: the communicator, and the handle to come.
    pub(crate) arriving: Vec<(usize, Place<ncclWindow_t>, usize)>,
    pub(crate) operators: BTreeMap<c_int, Operator>,
    pub(crate) allocations: BTreeMap<usize, alloc::Layout>,
    /// Communicators, and the captures that contain their calls.
    pub(crate) captured: Vec<(usize, u64)>,
}

impl State {
    fn new() -> Self {
        if moves::are_on() {
            moves::prepare_end();
        }
        Self {
            log: Vec::new(),
            misuse: Vec::new(),
            version: stamp::version(),
            before: None,
            has_windows: true,
            has_rma: false,
            has_counted: false,
            has_device_api: moves::are_on(),
            gin: (2, 0, 2),
            is_mapped: false,
            device_comms: BTreeMap::new(),
            asked: HashMap::new(),
            told: HashMap::new(),
            stuck: HashSet::new(),
            splits: VecDeque::new(),
            errors: Vec::new(),
            threads: HashMap::new(),
            given: 0,
            lists: HashMap::new(),
            seats: HashSet::new(),
            communicators: BTreeMap::new(),
            members: HashMap::new(),
            registrations: BTreeMap::new(),
            pairs: Pairs::new(),
            windows: BTreeMap::new(),
            polls: HashMap::new(),
            arriving: Vec::new(),
            operators: BTreeMap::new(),
            allocations: BTreeMap::new(),
            captured: Vec::new(),
        }
    }

    /// The state of this copy.
    pub(crate) fn lock() -> MutexGuard<'static, Self> {
        static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(State::new()));
        STATE.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a call.
    pub(crate) fn record(&mut self, function: Function, arguments: Vec<(&str, Value)>) {
        let name = function.name();
        let makes = ["Init", "Split", "Shrink"].iter().any(|part| name.contains(part));
        if moves::are_on() && !makes {
            // Waiting threads poll very often, and programs run for hours.
            return;
        }
        let thread = self.thread().number;
        let named = |(name, value): (&str, Value)| (name.to_owned(), value);
        let arguments = arguments.into_iter().map(named).collect();
        self.log.push(Call { function, thread, result: None, arguments });
    }

    /// Adds to the record of the last call.
    pub(crate) fn note(&mut self, name: &str, value: Value) {
        // If data moves, the last recorded call may be another one.
        if let Some(call) = self.log.last_mut().filter(|_| !moves::are_on()) {
            call.arguments.push((name.to_owned(), value));
        }
    }

    /// Records the result of the last call.
    pub(crate) fn returns(&mut self, result: ncclResult_t) {
        if let Some(call) = self.log.last_mut().filter(|_| !moves::are_on()) {
            call.result = Some(result);
        }
    }

    /// Records a refusal, where a program looks for it too.
    pub(crate) fn refuse(&mut self, function: Function, refusal: Refusal) -> ncclResult_t {
        let words = format!("{function}: {}", refusal.words);
        self.set_error(&words);
        self.misuse.push(words);
        refusal.result
    }

    /// Sets the results of a function's next calls.
    pub(crate) fn tell(&mut self, function: &'static str, result: ncclResult_t) {
        self.told.entry(function).or_default().push_back(result);
    }

    /// The result that this call was told to return.
    pub(crate) fn told(&mut self, function: Function) -> Option<ncclResult_t> {
        self.told.get_mut(function.name())?.pop_front()
    }

    /// Sets the text of `ncclGetLastError`.
    pub(crate) fn set_error(&mut self, words: &str) {
        // A text contains no zero, or ends there.
        let words = words.split('\0').next().unwrap_or_default();
        self.errors.extend(CString::new(words));
    }

    /// The last error's text; it stays where it is.
    pub(crate) fn error(&self) -> &CStr {
        self.errors.last().map_or(c"", CString::as_c_str)
    }

    /// The calling thread.
    pub(crate) fn thread(&mut self) -> &mut Thread {
        let number = self.threads.len();
        let new = || Thread { number, ..Thread::default() };
        self.threads.entry(thread::current().id()).or_insert_with(new)
    }

    /// A handle that no copy has used before. It is not an address, so dereferencing it ends the
    /// program at once.
    pub(crate) fn handle(&mut self) -> usize {
        // Other copies have other addresses, at least sixteen bytes apart. An address has 47 bits,
        // and a million handles are enough for a test.
        self.given += 1;
        ((stamp::address() >> 4) << 20).wrapping_add(self.given)
    }

    /// A number for what is not a handle.
    pub(crate) fn number(&mut self) -> usize {
        self.given += 1;
        self.given
    }

    /// Whether this is at least that release.
    pub(crate) fn at_least(&self, version: Version) -> bool {
        Version::from_code(self.version).is_some_and(|this| this.at_least(version))
    }
}
