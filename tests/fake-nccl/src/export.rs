//! The two forms of an exported function: with a result, and without one.

use nccl_sys::{Function, ncclResult_t};

use crate::call::Value;
use crate::moves;
use crate::polls::Poll;
use crate::state::{Answer, State};

/// Records a call, and answers as told or with the result of `act`.
///
/// A call told to fail has no effect; one told to be in progress has its effect.
pub(crate) fn answer(
    function: Function,
    arguments: Vec<(&'static str, Value)>,
    act: impl FnOnce(&mut State) -> Answer,
) -> ncclResult_t {
    let comm = comm_of(&arguments);
    let _poll = Poll::begin(function, comm);
    before(function);
    let freed = stuck(function, &arguments);
    let mut state = State::lock();
    state.record(function, arguments);
    if freed {
        state.returns(ncclResult_t::ncclInternalError);
        return ncclResult_t::ncclInternalError;
    }
    let told = state.told(function);
    let result = match told {
        Some(failure)
            if failure != ncclResult_t::ncclInProgress && failure != ncclResult_t::ncclSuccess =>
        {
            failure
        }
        told => match act(&mut state) {
            Ok(()) => told.unwrap_or(ncclResult_t::ncclSuccess),
            Err(refusal) => state.refuse(function, refusal),
        },
    };
    state.returns(result);
    drop(state);
    match moves::take_later().map(|work| work()) {
        Some(Err(refusal)) => State::lock().refuse(function, refusal),
        Some(Ok(())) | None if result == ncclResult_t::ncclSuccess => goes_on(function, comm),
        Some(Ok(())) | None => result,
    }
}

/// The result of a call that has had its effect: on a non-blocking communicator, NCCL may still be
/// at it.
fn goes_on(function: Function, comm: Option<usize>) -> ncclResult_t {
    let mut state = State::lock();
    if let (Some(comm), true) = (comm, may_go_on(function)) {
        state.goes_on(comm);
    }
    match state.went_on() {
        // NCCL returns another call's result there, and writes the window when it is done.
        true if function == Function::ncclCommWindowRegister => ncclResult_t::ncclSuccess,
        true => ncclResult_t::ncclInProgress,
        false => ncclResult_t::ncclSuccess,
    }
}

/// Whether NCCL may continue it after it returned: operations, which may have to connect ranks, and
/// calls that all ranks make together.
fn may_go_on(function: Function) -> bool {
    use Function::*;
    matches!(
        function,
        ncclAllReduce
            | ncclBroadcast
            | ncclReduce
            | ncclAllGather
            | ncclReduceScatter
            | ncclAlltoAll
            | ncclGather
            | ncclScatter
            | ncclSend
            | ncclRecv
            | ncclPutSignal
            | ncclSignal
            | ncclWaitSignal
            | ncclCommWindowRegister
            | ncclCommSplit
            | ncclCommShrink
            | ncclCommSuspend
            | ncclCommResume
    )
}

/// The communicator of a call.
fn comm_of(arguments: &[(&'static str, Value)]) -> Option<usize> {
    arguments.iter().find_map(|(name, value)| match value {
        Value::Pointer(address) if *name == "comm" => Some(*address),
        _ => None,
    })
}

/// Records a call, and returns the result of `act`.
pub(crate) fn tell<T>(
    function: Function,
    arguments: Vec<(&'static str, Value)>,
    act: impl FnOnce(&mut State) -> T,
) -> T {
    before(function);
    let mut state = State::lock();
    state.record(function, arguments);
    act(&mut state)
}

/// Waits while the test makes the function hang; returns whether the communicator was revoked
/// meanwhile.
fn stuck(function: Function, arguments: &[(&'static str, Value)]) -> bool {
    let comm = comm_of(arguments);
    let mut waited = false;
    loop {
        let state = State::lock();
        let found = comm.and_then(|comm| state.communicators.get(&comm));
        if found.is_some_and(|found| found.revoked) {
            return waited;
        }
        if !state.stuck.contains(function.name()) {
            return false;
        }
        drop(state);
        waited = true;
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Announces the beginning of a call to the test.
fn before(function: Function) {
    // In its own statement, so that the lock is not held while the test's function runs.
    let tell = State::lock().before;
    if let Some(tell) = tell {
        let name = function.name();
        // SAFETY: there are this many bytes; the function is from `Fake::before`.
        unsafe { tell(name.as_ptr(), name.len()) };
    }
}

/// Exports functions, with the types that `nccl-sys` declares. A body gets its arguments as
/// [`Argument::Seen`](crate::argument::Argument::Seen), and the state. `[n]` after a pointer means
/// that it points to `n` values, for the log.
macro_rules! exports {
    ( $(
        $how:ident fn $name:ident(
            $($arg:ident: $type:ty $([$count:expr])?),* $(,)?
        ) $(-> $ret:ty)? = |$state:pat_param| $body:expr;
    )* ) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? {
            $(
                // SAFETY: the caller keeps NCCL's contract, which implies this one.
                let $arg = unsafe { $crate::argument::Argument::seen($arg) };
            )*
            let arguments = vec![
                $( (stringify!($arg), $crate::export::exports!(@value $type, $arg $(, $count)?)), )*
            ];
            $crate::export::$how(nccl_sys::Function::$name, arguments, |$state| $body)
        }

        const _: nccl_sys::$name = $name;
    )* };
    (@value $type:ty, $arg:ident) => {
        <$type as $crate::argument::Argument>::value($arg)
    };
    (@value $type:ty, $arg:ident, $count:expr) => {{
        // SAFETY: the caller keeps NCCL's contract, by which there are as many.
        unsafe { $crate::argument::list($crate::pointer::Readable::readable($arg), $count) }
    }};
}

pub(crate) use exports;
