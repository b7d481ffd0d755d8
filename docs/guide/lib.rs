//! The guide's chapters as documentation, so that `cargo test` compiles and runs their examples.

#[cfg(doctest)]
macro_rules! chapters {
    ($($chapter:ident)+) => { $(
        #[doc = include_str!(concat!("src/", stringify!($chapter), ".md"))]
        mod $chapter {}
    )+ };
}

#[cfg(doctest)]
chapters! {
    first
    memory
    streams
    collectives
    windows
    groups
    communicators
    processes
    failure
    graphs
    frameworks
    kernels
}

#[cfg(all(doctest, feature = "candle"))]
chapters! { candle }
