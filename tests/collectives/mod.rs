//! Every collective against a naive sequential model, bit for bit.
//!
//! A [`case::Case`] is a program: a few buffers on each rank and collectives on them, one after the
//! other without waits between. [`play`] runs it on the library, [`model`] on plain vectors. Then
//! every element of every buffer is compared, including those that no call should touch.
//!
//! All of this is generic over the device: [`device`] selects it here, and `tests/gpu` runs the
//! same files on GPUs.
//!
//! `PROPTEST_CASES` scales the number of random cases; 256 stands for the numbers in the files.

mod bounds;
mod call;
mod case;
mod check;
mod device;
mod elements;
mod every_form;
mod issue;
mod model;
mod play;
mod reducing;
mod small;
mod strategies;
mod watchdog;

mod by_hand;
mod each;
mod grid;
mod large;
mod last_reference;
mod programs;
mod tolerance;
