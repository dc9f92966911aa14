//! Examples of the device library's pages, and the frames that they stand in. The tests that run them on the CPU target
//! and the one that compiles them with nvcc (`kernels/tests/cuda_matrix`) both read them by this file.

/// The pages of the device library, and those that have examples of it.
pub const PAGE: &str = concat!(
    include_str!("../../docs/device-library.md"),
    "\n",
    include_str!("../../docs/device-groups.md"),
    "\n",
    include_str!("../../docs/examples.md"),
    "\n",
    include_str!("../../docs/volumes.md")
);

/// What a frame has in the place of an example.
const PLACE: &str = "    // the example\n";

/// All blocks of code there that are marked so: `cuda body`.
pub fn documented_blocks(mark: &str) -> impl Iterator<Item = &'static str> + use<> {
    blocks_of(PAGE, mark)
}

/// The same of another page.
pub fn blocks_of(page: &'static str, mark: &str) -> impl Iterator<Item = &'static str> + use<> {
    let opening = format!("{mark}\n");
    let blocks = page.split("\n```").skip(1).step_by(2);
    blocks.filter_map(move |block| block.strip_prefix(opening.as_str()))
}

/// What stands there for a place in an example, and has this text. Panics if there is none.
pub fn documented_part(text: &str) -> String {
    block("cuda part", text)
}

pub(crate) fn block(mark: &str, text: &str) -> String {
    documented_blocks(mark).find(|block| block.contains(text)).expect("an example").to_owned() + "\n"
}

/// The frame of examples `cuda FRAME body`, as the page has it.
pub fn frame_of(frame: &str) -> &'static str {
    documented_blocks(&format!("cuda{frame} frame")).next().expect("a frame")
}

/// An example in its frame.
pub fn in_frame(whole: &str, body: &str) -> String {
    assert!(whole.contains(PLACE), "the frame says where an example goes");
    whole.replace(PLACE, &format!("{body}\n"))
}

/// Kernels made of a frame and the examples that belong in it.
pub struct Framed {
    /// All of them, with what stands before them in the frame.
    pub source: String,
    /// The name of each, which ends in `_MODE_CHANGE`, and its example.
    pub kernels: Vec<(String, &'static str)>,
}

/// A kernel for each example marked `cuda FRAME body`, and of each of `marks` (`""`, `" lost"`) too, for each sharing
/// mode and each of `changes`: what is put in place of a text of the frame. `before` stands before the kernels.
pub fn framed(frame: &str, marks: &[&str], before: &str, modes: &[&str], changes: &[(&str, &str)]) -> Framed {
    let whole = frame_of(frame);
    let (head, kernel) = whole.split_at(whole.find("WARPBELL_KERNEL").expect("a kernel"));
    let name = kernel.split(['(', ',']).nth(1).expect("its name");
    let mut all = Framed { source: format!("{head}{before}"), kernels: Vec::new() };
    for mark in marks {
        for (number, body) in documented_blocks(&format!("cuda{frame} body{mark}")).enumerate() {
            let example = in_frame(kernel, body);
            for mode in modes {
                for (at, (from, to)) in changes.iter().enumerate() {
                    let called = format!("{name}{}_{number}_{mode}_{at}", mark.replace(' ', "_"));
                    all.source += &example
                        .replace(from, to)
                        .replace(&format!("({name},"), &format!("({called},"))
                        .replace("sharing::shared", &format!("sharing::{mode}"));
                    all.source += "\n";
                    all.kernels.push((called, body));
                }
            }
        }
    }
    assert!(!all.kernels.is_empty(), "no examples of{frame}{marks:?}");
    all
}
