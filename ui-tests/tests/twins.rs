//! Every file in `check/` has a twin that differs by the smallest edit, compiles and runs.

#[test]
fn the_smallest_edit_compiles() {
    trybuild::TestCases::new().pass("twins/*.rs");
}
