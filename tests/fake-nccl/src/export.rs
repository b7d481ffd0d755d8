//! The two forms of an exported function: one that answers with a result, and one that just tells.

use nccl_sys::{Function, ncclResult_t};

use crate::call::Value;
use crate::moves;
use crate::state::{Answer, State};

/// Writes a call down, and answers as it was told or as `act` finds.
///
/// A call that is told to fail does nothing; one that is told to be in progress does it.
pub(crate) fn answer(
    function: Function,
    arguments: Vec<(&'static str, Value)>,
    act: impl FnOnce(&mut State) -> Answer,
) -> ncclResult_t {
    before(function);
    let freed = stuck(function, &arguments);
    let comm = comm_of(&arguments);
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

/// What a call returns that has done what it does: on a communicator that does not block, NCCL may be at
/// it still.
fn goes_on(function: Function, comm: Option<usize>) -> ncclResult_t {
    let mut state = State::lock();
    if let (Some(comm), true) = (comm, may_go_on(function)) {
        state.goes_on(comm);
    }
    match state.went_on() {
        // NCCL has the result of another call there, and writes the window when it is done.
        true if function == Function::ncclCommWindowRegister => ncclResult_t::ncclSuccess,
        true => ncclResult_t::ncclInProgress,
        false => ncclResult_t::ncclSuccess,
    }
}

/// Whether it is among those that NCCL may go on with: operations, which may have to connect ranks, and
/// what all ranks do together.
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

/// The communicator that a call is about.
fn comm_of(arguments: &[(&'static str, Value)]) -> Option<usize> {
    arguments.iter().find_map(|(name, value)| match value {
        Value::Pointer(address) if *name == "comm" => Some(*address),
        _ => None,
    })
}

/// Writes a call down, and gives what `act` finds.
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

/// Waits as long as the test says that the function does; whether the communicator was revoked meanwhile.
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

/// Tells the test of a call that begins.
fn before(function: Function) {
    // In a statement of its own: the lock is not held while the test's function runs.
    let tell = State::lock().before;
    if let Some(tell) = tell {
        let name = function.name();
        // SAFETY: there are so many bytes; the function is `Fake::before`'s.
        unsafe { tell(name.as_ptr(), name.len()) };
    }
}

/// Exports functions, of the types that `nccl-sys` declares. A body sees its arguments as
/// [`Argument::Seen`](crate::argument::Argument::Seen), and the state. `[n]` after a pointer says that
/// it points to `n` values, for the log.
macro_rules! exports {
    ( $(
        $how:ident fn $name:ident(
            $($arg:ident: $type:ty $([$count:expr])?),* $(,)?
        ) $(-> $ret:ty)? = |$state:pat_param| $body:expr;
    )* ) => { $(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($arg: $type),*) $(-> $ret)? {
            $(
                // SAFETY: the caller keeps NCCL's contract, which is what this asks for.
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
        // SAFETY: the caller keeps NCCL's contract, which says that there are as many.
        unsafe { $crate::argument::list($crate::pointer::Readable::readable($arg), $count) }
    }};
}

pub(crate) use exports;
