//! Every file in `check/` is refused by `cargo check`, in the words of its `.stderr`.

#[test]
fn misuse_does_not_compile() {
    trybuild::TestCases::new().compile_fail("check/*.rs");
}
