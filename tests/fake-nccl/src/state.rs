//! What one copy of the library knows. One lock guards it, for the whole of each call.

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

/// What a test has called before each call, with the function's name: its bytes, how many.
pub(crate) type Before = unsafe extern "C" fn(*const u8, usize);

/// How a call ends that was not told how to.
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
    /// Communicators whose calls go on.
    pub(crate) going_on: Vec<usize>,
    /// The communicators of the group that is open, each with what its stream captures.
    pub(crate) captures: Vec<(usize, u64)>,
}

/// Everything.
pub(crate) struct State {
    pub(crate) log: Vec<Call>,
    pub(crate) misuse: Vec<String>,
    pub(crate) version: c_int,
    /// What is called before each call.
    pub(crate) before: Option<Before>,
    /// Whether windows can be had.
    pub(crate) has_windows: bool,
    /// Whether one-sided operations can be had.
    pub(crate) has_rma: bool,
    pub(crate) has_counted: bool,
    /// Whether device communicators can be had.
    pub(crate) has_device_api: bool,
    /// The best way of kernels over the network, that within a rail, and whom they reach.
    pub(crate) gin: (c_int, c_int, c_int),
    /// Whether there is multicast memory, and endpoints and teams for counted transfers.
    pub(crate) is_mapped: bool,
    /// Device communicators, by what their bytes say: the communicator.
    pub(crate) device_comms: BTreeMap<usize, usize>,
    /// What the first rank asked for, by what the ranks have in common and how many were made before.
    pub(crate) asked: HashMap<([u8; NCCL_UNIQUE_ID_BYTES], usize), Vec<u8>>,
    /// Results that calls were told to give, the next first.
    told: HashMap<&'static str, VecDeque<ncclResult_t>>,
    /// Functions whose calls wait until their communicator is revoked.
    pub(crate) stuck: HashSet<&'static str>,
    /// Ranks and counts of split children.
    pub(crate) splits: VecDeque<(c_int, c_int)>,
    /// All texts there were: who asked for one may still read it.
    errors: Vec<CString>,
    threads: HashMap<ThreadId, Thread>,
    given: usize,
    /// The lists that ids stand in, by id.
    pub(crate) lists: HashMap<[u8; NCCL_UNIQUE_ID_BYTES], List>,
    /// Who has come, by the first id.
    pub(crate) seats: HashSet<([u8; NCCL_UNIQUE_ID_BYTES], c_int)>,
    pub(crate) communicators: BTreeMap<usize, Communicator>,
    /// Those that move data.
    pub(crate) members: HashMap<usize, Arc<Member>>,
    /// Plain registrations.
    pub(crate) registrations: BTreeMap<usize, Registration>,
    /// Messages whose other sides have not come.
    pub(crate) pairs: Pairs,
    pub(crate) windows: BTreeMap<usize, Window>,
    /// Windows of communicators that do not block: whose they are, and the handles that are still to come.
    pub(crate) arriving: Vec<(usize, Place<ncclWindow_t>, usize)>,
    pub(crate) operators: BTreeMap<c_int, Operator>,
    pub(crate) allocations: BTreeMap<usize, alloc::Layout>,
    /// Communicators, and the captures that have calls of theirs.
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

    /// Writes a call down.
    pub(crate) fn record(&mut self, function: Function, arguments: Vec<(&str, Value)>) {
        let name = function.name();
        let makes = ["Init", "Split", "Shrink"].iter().any(|part| name.contains(part));
        if moves::are_on() && !makes {
            // Who waits asks very often, and programs run for hours.
            return;
        }
        let thread = self.thread().number;
        let named = |(name, value): (&str, Value)| (name.to_owned(), value);
        let arguments = arguments.into_iter().map(named).collect();
        self.log.push(Call { function, thread, result: None, arguments });
    }

    /// Writes down more of the last call than its arguments say.
    pub(crate) fn note(&mut self, name: &str, value: Value) {
        // Where data moves the last call that was written down may be another one.
        if let Some(call) = self.log.last_mut().filter(|_| !moves::are_on()) {
            call.arguments.push((name.to_owned(), value));
        }
    }

    /// Writes down what the last call returns.
    pub(crate) fn returns(&mut self, result: ncclResult_t) {
        if let Some(call) = self.log.last_mut().filter(|_| !moves::are_on()) {
            call.result = Some(result);
        }
    }

    /// Writes a refusal down, where a program looks for it too.
    pub(crate) fn refuse(&mut self, function: Function, refusal: Refusal) -> ncclResult_t {
        let words = format!("{function}: {}", refusal.words);
        self.set_error(&words);
        self.misuse.push(words);
        refusal.result
    }

    /// The next calls of a function return this.
    pub(crate) fn tell(&mut self, function: &'static str, result: ncclResult_t) {
        self.told.entry(function).or_default().push_back(result);
    }

    /// What this call was told to return.
    pub(crate) fn told(&mut self, function: Function) -> Option<ncclResult_t> {
        self.told.get_mut(function.name())?.pop_front()
    }

    /// What `ncclGetLastError` says from now on.
    pub(crate) fn set_error(&mut self, words: &str) {
        // A text has no zero in it, or ends there.
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

    /// A handle that no copy has given before. It is no address of anything, so following it ends the
    /// program there and then.
    pub(crate) fn handle(&mut self) -> usize {
        // Other copies lie at other addresses, sixteen bytes apart at the least; an address uses 47
        // bits, and a million handles are enough for a test.
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
