// What mdBook's pages lack for readers without a mouse: listings wider than the page are scrolled with the keyboard, and the bar on
// top is a landmark.
for (const code of document.querySelectorAll("pre code")) {
  code.tabIndex = 0;
  code.setAttribute("role", "group");
  code.setAttribute("aria-label", "Listing");
}
document.querySelector("#mdbook-menu-bar")?.setAttribute("role", "banner");
// A label may not say that it is expanded; the checkbox that it belongs to does.
document.querySelector("#mdbook-sidebar-toggle")?.removeAttribute("aria-expanded");
