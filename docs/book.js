// What mdBook's pages lack for readers without a mouse: what is wider than the page is scrolled with the keyboard, and the bar on top is
// a landmark.
for (const wide of document.querySelectorAll("pre code, .table-wrapper")) {
  wide.tabIndex = 0;
  wide.setAttribute("role", "group");
  wide.setAttribute("aria-label", wide.matches("code") ? "Listing" : "Table");
}
document.querySelector("#mdbook-menu-bar")?.setAttribute("role", "banner");
// A label may not say that it is expanded; the checkbox that it belongs to does.
document.querySelector("#mdbook-sidebar-toggle")?.removeAttribute("aria-expanded");
