//! Every file in `check/` is refused by `cargo check`, in the words of its `.stderr`.

use std::env;

/// The flags that trybuild gives to the compiler. It sets the width for the samples alone, which
/// would check each of their dependencies twice.
const FLAGS: [&str; 6] =
    ["--cfg", "trybuild", "--verbose", "-A", "dead_code", "--diagnostic-width=140"];

#[test]
fn misuse_does_not_compile() {
    // SAFETY: this is the program's only test, and no other thread reads or sets a variable.
    unsafe { env::set_var("CARGO_ENCODED_RUSTFLAGS", FLAGS.join("\x1f")) };
    trybuild::TestCases::new().compile_fail("check/*.rs");
}
