//! Examples of the documentation, as tests compile them.

/// The page of the device library.
pub const PAGE: &str = include_str!("../../docs/device-library.md");

/// The example with this kernel in `docs/device-library.md`. Panics if there is none.
pub fn documented(kernel: &str) -> String {
    block("cuda", &format!("WARPBELL_KERNEL({kernel},"))
}

/// What stands there for a place in an example, and has this text. Panics if there is none.
pub fn documented_part(text: &str) -> String {
    block("cuda part", text)
}

/// All blocks of code there that are marked so: `cuda body`.
pub fn documented_blocks(mark: &str) -> impl Iterator<Item = &'static str> + use<> {
    let opening = format!("{mark}\n");
    let blocks = PAGE.split("\n```").skip(1).step_by(2);
    blocks.filter_map(move |block| block.strip_prefix(opening.as_str()))
}

fn block(mark: &str, text: &str) -> String {
    documented_blocks(mark).find(|block| block.contains(text)).expect("an example").to_owned() + "\n"
}
