//! The driver's functions, by the symbols under which they are looked up.
#![expect(non_snake_case, reason = "the header's names")]

mod context;
mod device;
mod event;
mod graph;
mod kernel;
mod mapping;
mod memory;
mod nvrtc;
mod stream;
mod text;

const FILES: [&[&str]; 10] = [
    context::NAMES,
    device::NAMES,
    event::NAMES,
    graph::NAMES,
    kernel::NAMES,
    mapping::NAMES,
    memory::NAMES,
    nvrtc::NAMES,
    stream::NAMES,
    text::NAMES,
];

const COUNT: usize = {
    let (mut count, mut file) = (0, 0);
    while file < FILES.len() {
        count += FILES[file].len();
        file += 1;
    }
    count
};

/// All of them.
pub(crate) const FUNCTIONS: [&str; COUNT] = {
    let (mut all, mut at, mut file) = ([""; COUNT], 0, 0);
    while file < FILES.len() {
        let mut function = 0;
        while function < FILES[file].len() {
            all[at] = FILES[file][function];
            at += 1;
            function += 1;
        }
        file += 1;
    }
    all
};
