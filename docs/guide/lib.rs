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
    first memory streams collectives windows groups communicators
    plans checks running
    processes jobs network environment failure watch
    frameworks python kernels graphs performance limits coming mistakes
}

#[cfg(all(doctest, feature = "candle"))]
chapters! { candle }
