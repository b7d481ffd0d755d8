//! The state of one copy of the library. One lock guards it, for the whole of each call that does
//! not wait.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::c_int;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use crate::call::Call;
use crate::code::Code;
use crate::gpus;
use crate::graph::Capture;
use crate::mapping::Range;
use crate::memory::Piece;
use crate::ptx::Kernel;
use crate::queue::{Event, Stream};
use crate::worker;

/// The default stream, on the device where it is first used. It does not wait for other streams.
const LEGACY: u64 = 0;

/// The per-thread default stream: here all threads have one.
const PER_THREAD: u64 = 2;

/// The result of a call that was not told to fail.
pub(crate) type Answer = Result<(), Refusal>;

/// Why a call did not succeed.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// An ordinary result.
    Plain(Code),
    /// The driver's contract does not allow the call.
    Misuse(Code, String),
}

impl Refusal {
    /// An invalid argument.
    pub(crate) fn value(words: impl Into<String>) -> Self {
        Self::Misuse(Code::INVALID_VALUE, words.into())
    }
}

/// A thread that has called.
#[derive(Default)]
pub(crate) struct Thread {
    /// How many threads had called before it.
    number: usize,
    /// Its current context, or 0.
    pub(crate) context: u64,
}

/// Everything.
pub(crate) struct State {
    /// Each call with its number.
    pub(crate) log: Vec<(u64, Call)>,
    pub(crate) misuse: Vec<String>,
    /// Results that calls were told to return, in order.
    told: HashMap<&'static str, VecDeque<Code>>,
    threads: HashMap<ThreadId, Thread>,
    given: u64,
    pub(crate) started: bool,
    /// Whether the devices are lost.
    pub(crate) fault: bool,
    pub(crate) devices: usize,
    /// Their numbers on the machine, if the environment lists them.
    physical: Option<Vec<usize>>,
    /// Whether each stream has a thread.
    pub(crate) takes_time: bool,
    /// How much memory each device has.
    pub(crate) limit: usize,
    /// By device.
    pub(crate) contexts: BTreeMap<usize, u64>,
    pub(crate) streams: BTreeMap<u64, Stream>,
    pub(crate) events: BTreeMap<u64, Event>,
    pub(crate) modules: BTreeMap<u64, Vec<Arc<Kernel>>>,
    pub(crate) functions: BTreeMap<u64, Arc<Kernel>>,
    pub(crate) captures: BTreeMap<u64, Capture>,
    /// Whether captures in global mode, which typed-nccl never begins, are another library's.
    pub(crate) others_capture: bool,
    /// Threads that may ask while another captures.
    pub(crate) relaxed: HashSet<ThreadId>,
    /// Graphs and their executables, by their captures.
    pub(crate) graphs: BTreeMap<u64, u64>,
    pub(crate) executables: BTreeMap<u64, u64>,
    /// Recordings that are not reached yet.
    pub(crate) pending: HashSet<u64>,
    /// When recordings of timed events were reached.
    pub(crate) times: HashMap<u64, Option<Instant>>,
    pub(crate) pieces: BTreeMap<u64, Piece>,
    /// Pieces of pinned memory.
    pub(crate) pinned: usize,
    /// The size of foreign memory's pieces; 0 if it has no second addresses.
    pub(crate) virtual_piece: usize,
    /// Handles of foreign memory.
    pub(crate) retained: HashSet<u64>,
    /// Devices whose context is locked until they are idle, as memory is freed.
    pub(crate) freeing: Vec<usize>,
    /// How many addresses were reserved.
    pub(crate) reserved: u64,
    pub(crate) ranges: BTreeMap<u64, Range>,
}

/// The library, locked.
pub(crate) struct Library {
    /// Present, except while it waits.
    state: Option<MutexGuard<'static, State>>,
    /// The current call.
    call: u64,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| Mutex::new(State::new()));

/// Notified when something changed.
static CHANGED: Condvar = Condvar::new();

impl State {
    fn new() -> Self {
        let physical = gpus::of_the_machine();
        Self {
            log: Vec::new(),
            misuse: Vec::new(),
            told: HashMap::new(),
            threads: HashMap::new(),
            given: 0,
            started: false,
            fault: false,
            devices: physical.as_ref().map_or(4, Vec::len),
            takes_time: physical.is_some(),
            limit: if physical.is_some() { 3 << 29 } else { 256 << 20 },
            physical,
            contexts: BTreeMap::new(),
            streams: BTreeMap::new(),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            captures: BTreeMap::new(),
            others_capture: false,
            relaxed: HashSet::new(),
            graphs: BTreeMap::new(),
            executables: BTreeMap::new(),
            pending: HashSet::new(),
            times: HashMap::new(),
            pieces: BTreeMap::new(),
            pinned: 0,
            virtual_piece: 0,
            retained: HashSet::new(),
            freeing: Vec::new(),
            reserved: 0,
            ranges: BTreeMap::new(),
        }
    }

    /// Records a refusal that is misuse.
    pub(crate) fn refuse(&mut self, function: &str, refusal: Refusal) -> Code {
        match refusal {
            Refusal::Plain(code) => code,
            Refusal::Misuse(code, words) => {
                self.misuse.push(format!("{function}: {words}"));
                code
            }
        }
    }

    /// Sets the results of a function's next calls.
    pub(crate) fn tell(&mut self, function: &'static str, code: Code) {
        self.told.entry(function).or_default().push_back(code);
    }

    /// The result that this call was told to return.
    pub(crate) fn told(&mut self, function: &str) -> Option<Code> {
        self.told.get_mut(function)?.pop_front()
    }

    /// The calling thread.
    pub(crate) fn thread(&mut self) -> &mut Thread {
        let number = self.threads.len();
        let new = || Thread { number, context: 0 };
        self.threads.entry(thread::current().id()).or_insert_with(new)
    }

    /// A handle that this copy has not used before and that is not an address.
    pub(crate) fn handle(&mut self) -> u64 {
        self.given += 1;
        (0xcdab << 40) | self.given
    }

    /// A device, by the value from `cuDeviceGet`.
    pub(crate) fn device(&self, device: c_int) -> Result<usize, Refusal> {
        let found = usize::try_from(device).ok().filter(|device| *device < self.devices);
        let words = || format!("{device} is no device");
        found.ok_or_else(|| Refusal::Misuse(Code::INVALID_DEVICE, words()))
    }

    /// A device's number on the machine.
    pub(crate) fn physical(&self, device: usize) -> usize {
        let found = self.physical.as_ref().and_then(|physical| physical.get(device));
        found.copied().unwrap_or(device)
    }

    /// The context of a device.
    pub(crate) fn context(&mut self, device: usize) -> u64 {
        let new = self.handle();
        *self.contexts.entry(device).or_insert(new)
    }

    /// The device of the calling thread's context; a refusal if there is none.
    pub(crate) fn current(&mut self) -> Result<usize, Refusal> {
        let context = self.thread().context;
        let found = self.contexts.iter().find(|(_, known)| **known == context);
        let none = || {
            Refusal::Misuse(Code::INVALID_CONTEXT, "no context is current on this thread".into())
        };
        found.map(|(device, _)| *device).ok_or_else(none)
    }

    pub(crate) fn stream(&mut self, stream: u64) -> Result<&mut Stream, Refusal> {
        if matches!(stream, LEGACY | PER_THREAD) && !self.streams.contains_key(&stream) {
            let device = self.current()?;
            let new = Stream::new(device);
            if self.takes_time && worker::start(stream, new.wake.clone()).is_err() {
                return Err(Refusal::Plain(Code::OUT_OF_MEMORY));
            }
            self.streams.insert(stream, new);
        }
        let words = || format!("{stream:#x} is no stream of this library, or destroyed");
        let found = self.streams.get_mut(&stream).filter(|stream| !stream.destroyed);
        found.ok_or_else(|| Refusal::Misuse(Code::INVALID_HANDLE, words()))
    }

    pub(crate) fn event(&mut self, event: u64) -> Result<&mut Event, Refusal> {
        let words = || format!("{event:#x} is no event of this library");
        let found = self.events.get_mut(&event);
        found.ok_or_else(|| Refusal::Misuse(Code::INVALID_HANDLE, words()))
    }
}

/// The state of this copy.
pub(crate) fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Wakes waiting calls, as something changed.
pub(crate) fn changed() {
    CHANGED.notify_all();
}

impl Library {
    /// This copy.
    pub(crate) fn lock() -> Self {
        Self { state: Some(lock()), call: 0 }
    }

    /// Records a call; returns its number.
    pub(crate) fn record(
        &mut self,
        function: &'static str,
        arguments: Vec<(&'static str, u64)>,
    ) -> u64 {
        let thread = self.thread().number;
        let arguments = arguments.into_iter().map(|(name, value)| (name.to_owned(), value));
        let arguments = arguments.collect();
        self.call = self.handle();
        if self.takes_time {
            // A waiting thread polls very often.
            return self.call;
        }
        let call = Call { function, thread, result: None, arguments, gives: None };
        let number = self.call;
        self.log.push((number, call));
        number
    }

    fn written(&mut self, number: u64) -> Option<&mut Call> {
        // If the log was cleared meanwhile, the call is dropped.
        self.log.iter_mut().rev().find(|(known, _)| *known == number).map(|(_, call)| call)
    }

    /// Records a call's result.
    pub(crate) fn returns(&mut self, number: u64, code: Code) {
        if let Some(call) = self.written(number) {
            call.result = Some(code);
        }
    }

    /// Records the value that this call returns by pointer.
    pub(crate) fn gives(&mut self, value: u64) {
        if let Some(call) = self.written(self.call) {
            call.gives = Some(value);
        }
    }

    /// Waits while the context of a device is locked.
    pub(crate) fn enter(&mut self, device: usize) -> Answer {
        self.wait(|state| !state.freeing.contains(&device))
    }

    /// Waits for a condition, while other threads may call.
    pub(crate) fn wait(&mut self, is_so: impl Fn(&State) -> bool) -> Answer {
        loop {
            if self.fault {
                return Err(Refusal::Plain(Code::ILLEGAL_ADDRESS));
            }
            if is_so(self) {
                return Ok(());
            }
            let state = self.state.take();
            self.state =
                state.map(|state| CHANGED.wait(state).unwrap_or_else(PoisonError::into_inner));
        }
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        changed();
    }
}

impl Deref for Library {
    type Target = State;

    fn deref(&self) -> &State {
        self.state.as_ref().expect("the lock is held")
    }
}

impl DerefMut for Library {
    fn deref_mut(&mut self) -> &mut State {
        self.state.as_mut().expect("the lock is held")
    }
}
