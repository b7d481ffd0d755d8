//! What is allowed, and most likely not meant, is told as a warning.

use proc_macro2::TokenStream;

use crate::expand;

#[test]
fn streams_that_never_overlap_are_a_warning() -> Result<(), proc_macro2::LexError> {
    let expanded = |second: &str| -> Result<String, proc_macro2::LexError> {
        let text = format!(
            "two_halves(rows: Ranks, cols: Ranks, h: usize) {{
                inout x: [f32; 2 * h];
                stream one, other;
                comm row along cols;
                comm col along rows;
                row.all_reduce(x[..h], sum) on one;
                {second}.all_reduce(x[h..], sum) on other;
            }}"
        );
        let text = format!("(::typed_nccl) #[order(implicit)] {text}");
        Ok(expand::plan(text.parse::<TokenStream>()?).to_string())
    };
    let (warned, silent) = (expanded("row")?, expanded("col")?);
    assert!(warned.contains("never run side by side"), "{warned}");
    assert!(!silent.contains("deprecated") && !silent.contains("compile_error"), "{silent}");
    Ok(())
}
