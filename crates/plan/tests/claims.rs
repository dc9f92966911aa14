//! Bed U: the page of claims is what the ledger makes.

#[test]
fn the_page_of_claims_is_not_stale() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/claims.md");
    let there = std::fs::read_to_string(page).unwrap_or_default();
    let made = warpbell_plan::claims::page().unwrap();
    // Not assert_eq: two pages of a hundred lines say nothing.
    let differs = there.lines().zip(made.lines()).find(|(left, right)| left != right);
    assert!(
        there == made,
        "docs/claims.md is stale, run scripts/regenerate-claims; first difference: {differs:?}"
    );
}
