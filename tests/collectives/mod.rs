//! Every collective against a naive sequential model, bit for bit.
//!
//! A [`case::Case`] is a program: a few buffers on each rank and collectives on them, one after the
//! other without a wait in between. [`play`] runs it on the library, [`model`] on plain vectors;
//! then every element of every buffer is compared, those that no call should touch included.
//!
//! All of that is generic over the device: [`device`] says which it is here, and `tests/gpu` runs the
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
