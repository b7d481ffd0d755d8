//! Where what `kernel!` writes says `unsafe`.

use proc_macro2::{LineColumn, TokenStream, TokenTree};

/// The places of a word, in groups too.
fn places(word: &str, tokens: TokenStream) -> Vec<LineColumn> {
    let of = |token| match token {
        TokenTree::Group(group) => places(word, group.stream()),
        TokenTree::Ident(ident) if ident == word => vec![ident.span().start()],
        _ => Vec::new(),
    };
    tokens.into_iter().flat_map(of).collect()
}

fn expanded(text: &str) -> TokenStream {
    crate::kernel::kernel(text.parse().expect("tokens"))
}

const HEAD: &str = "(::typed_nccl)
    #[launch(threads = 32, blocks = n)]
    pub fn k<T: Float>(n: usize, dev: &DevComm, b: Barrier, w: &Window<T>, x: &[T], y: &mut [T]);";

/// A lint sees a word where it stands, and one that a macro of another crate wrote it does not see.
#[test]
fn the_only_unsafe_is_the_programs_own() {
    let bodies =
        ["unsafe cuda \"\";", "unsafe ptx \"\"; host {}", "host {} unsafe cuda file \"k.cu\";"];
    for body in bodies {
        let text = format!("{HEAD}\n{body}");
        let own = places("unsafe", text.parse().expect("tokens"));
        assert_eq!(own.len(), 1, "{body}");
        assert_eq!(places("unsafe", expanded(&text)), own, "{body}");
    }
}

#[test]
fn a_kernel_of_the_host_says_no_unsafe() {
    let text = expanded(&format!("{HEAD} host {{ y[0] = x[0]; }}"));
    assert!(places("unsafe", text.clone()).is_empty(), "{text}");
    assert_eq!(places("on_host", text.clone()).len(), 1, "{text}");
}
