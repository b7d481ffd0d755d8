//! Helpers of several scenarios.

use std::cell::Cell;
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, Instant};

use fake_nccl::{Call, Value};
use nccl_sys::Function;
use typed_nccl::{
    AnyDevice, Buffer, CommConfig, Communicator, Cuda, Element, Error, Place, Result, Seat, Stream,
    Sum, World,
};

use crate::scenario::{cuda, nccl};

/// The message has all of these parts.
#[track_caller]
pub(crate) fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// The error is of this kind, and its message has all of these parts.
macro_rules! assert_error {
    ($outcome:expr, $kind:ident, $($part:expr),* $(,)?) => {{
        match $outcome {
            Err(error) => {
                assert!(matches!(error, typed_nccl::Error::$kind(_)), "{error}");
                $crate::common::says(&error, &[$($part.as_ref()),*]);
                error
            }
            Ok(_) => panic!("no error where {} was expected", stringify!($kind)),
        }
    }};
}

/// Connects with a deadline in milliseconds.
pub(crate) fn connect<T>(
    place: Place<Cuda<T>>,
    milliseconds: u64,
) -> Result<Communicator<Cuda<T>>> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().deadline(Duration::from_millis(milliseconds)).build();
    Communicator::builder().seat(seat).device(device).config(config).build().connect()
}

/// Time for what succeeds.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Connects without haste; calls from then on have a deadline in milliseconds.
pub(crate) fn connect_for<T>(
    place: Place<Cuda<T>>,
    milliseconds: u64,
) -> Result<Communicator<Cuda<T>>> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().deadline(Duration::from_millis(milliseconds)).build();
    let comm = Communicator::builder().seat(seat).device(device).config(config).build();
    comm.start()?.ready().wait_until(Instant::now() + LONG)
}

/// A communicator of one rank, on the first GPU.
pub(crate) fn alone() -> Result<Communicator<Cuda<AnyDevice>>> {
    Seat::local(1).remove(0).init(Cuda::any(0)?)
}

/// The driver's handle of a stream.
pub(crate) fn handle<T>(stream: &Stream<Cuda<T>>) -> Result<u64> {
    let (told, hears) = channel();
    stream.launch((), move |(), raw| {
        let _ = told.send(raw.as_ptr().addr() as u64);
    })?;
    Ok(hears.recv().expect("it runs at the call"))
}

/// A buffer's address. Counts as a use on the stream.
pub(crate) fn address<E: Element, T, M>(
    stream: &Stream<Cuda<T>>,
    buffer: &Buffer<E, Cuda<T>, M>,
) -> Result<u64> {
    let (told, hears) = channel();
    stream.launch(buffer, move |view: typed_nccl::DeviceView<'_, E>, _| {
        let _ = told.send(view.as_ptr().addr() as u64);
    })?;
    Ok(hears.recv().expect("it runs at the call"))
}

/// The calls of one NCCL function.
pub(crate) fn calls(function: Function) -> Vec<Call> {
    nccl().log().into_iter().filter(|call| call.function == function).collect()
}

/// How often an NCCL function was called.
pub(crate) fn count(function: Function) -> usize {
    calls(function).len()
}

/// A call as text: the function, and its arguments by their names in the header.
pub(crate) fn line(call: &Call) -> String {
    let mut line = call.function.to_string();
    for (name, value) in &call.arguments {
        let value = match value {
            Value::Int(int) => int.to_string(),
            Value::Pointer(address) => format!("{address:#x}"),
            other => format!("{other:?}"),
        };
        line += &format!(" {name}={value}");
    }
    line
}

/// Clears the log of both doubles.
pub(crate) fn clear() {
    cuda().clear();
    nccl().clear();
}

/// Nothing was called on either double since [`clear`].
#[track_caller]
pub(crate) fn assert_silent(what: &str) {
    assert_eq!(cuda().called(), [""; 0], "{what} calls the driver");
    assert_eq!(nccl().called(), [], "{what} calls NCCL");
}

/// Waits for the effect of other threads.
#[track_caller]
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(20), "never: {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// One rank's NCCL calls.
pub(crate) struct Wire {
    /// NCCL's handle.
    pub(crate) comm: u64,
    /// The communicator's own stream.
    pub(crate) stream: u64,
    /// The number of the rank's thread.
    thread: usize,
    /// How many calls to skip.
    before: Cell<usize>,
}

impl Wire {
    /// For a communicator, on the thread that uses it.
    pub(crate) fn of<T, W: World<Device = Cuda<T>>>(comm: &Communicator<W>) -> Result<Self> {
        let mut probe = comm.device().zeros::<u8>(1)?;
        let place = address(comm.stream(), &probe)?;
        comm.all_reduce_in_place(&mut probe, Sum)?;
        let calls = calls(Function::ncclAllReduce);
        let found = calls.iter().rfind(|call| call.pointer("recvbuff") as u64 == place);
        let call = found.expect("the probe's own call");
        let (comm_handle, thread) = (call.pointer("comm") as u64, call.thread);
        let stream = handle(comm.stream())?;
        assert_eq!(call.pointer("stream") as u64, stream);
        let wire = Self { comm: comm_handle, stream, thread, before: Cell::new(0) };
        wire.calls();
        Ok(wire)
    }

    /// The calls of the rank's thread since the last query, except those by which host waits poll
    /// for errors.
    pub(crate) fn calls(&self) -> Vec<Call> {
        let wanted = |call: &Call| {
            call.thread == self.thread && call.function != Function::ncclCommGetAsyncError
        };
        let calls: Vec<_> = nccl().log().into_iter().filter(wanted).collect();
        let before = self.before.replace(calls.len());
        calls.into_iter().skip(before).collect()
    }

    /// Likewise as text.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.calls().iter().map(line).collect()
    }

    /// The end of an operation's line.
    pub(crate) fn end(&self) -> String {
        format!("comm={:#x} stream={:#x}", self.comm, self.stream)
    }
}
