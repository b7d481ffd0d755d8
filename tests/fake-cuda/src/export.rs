//! The answers of exported functions.

use std::ffi::c_int;

use crate::code::Code;
use crate::state::{Answer, Library};

/// Functions that work in every state of the driver.
const ALWAYS: [&str; 2] = ["cuGetErrorName", "cuGetErrorString"];

/// Records a call, and answers as told or with the result of `act`. A call told to fail has no
/// effect.
pub(crate) fn answer(
    function: &'static str,
    arguments: Vec<(&'static str, u64)>,
    act: impl FnOnce(&mut Library) -> Answer,
) -> c_int {
    let mut library = Library::lock();
    let call = library.record(function, arguments);
    let always = ALWAYS.contains(&function);
    let code = if let Some(code) = library.told(function) {
        code
    } else if library.fault && !always {
        Code::ILLEGAL_ADDRESS
    } else if !library.started && !always && function != "cuInit" {
        Code::NOT_INITIALIZED
    } else {
        match act(&mut library) {
            Ok(()) => Code::SUCCESS,
            Err(refusal) => library.refuse(function, refusal),
        }
    };
    library.returns(call, code);
    code.number()
}

/// Exports functions of the driver. A body gets its arguments as
/// [`Argument::Seen`](crate::argument::Argument::Seen), and the locked library.
macro_rules! exports {
    ( $(
        fn $name:ident($($arg:ident: $type:ty),* $(,)?) = |$library:pat_param| $body:expr;
    )* ) => {
        /// The functions of this file.
        pub(super) const NAMES: &[&str] = &[$(stringify!($name)),*];

        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $name($($arg: $type),*) -> std::ffi::c_int {
                $(
                    // SAFETY: the caller keeps the driver's contract, which implies this one.
                    let $arg = unsafe { $crate::argument::Argument::seen($arg) };
                )*
                let arguments = vec![
                    $( (stringify!($arg), <$type as $crate::argument::Argument>::value($arg)), )*
                ];
                $crate::export::answer(stringify!($name), arguments, |$library| $body)
            }
        )*
    };
}

pub(crate) use exports;
