// Where the keyboard is.

const byId = (id) => document.getElementById(id);

const canHaveFocus = (element) =>
  Boolean(element?.isConnected && !element.disabled && element.getClientRects().length > 0);

// Makes a change that may take away what has the focus. It goes to what has the same id then, or to
// the message box: without it the keyboard would begin again at the top of the page.
export function keepFocus(change) {
  const had = document.activeElement;
  change();
  if (!had || had === document.body || canHaveFocus(had)) return;
  const same = had.id ? byId(had.id) : null;
  (canHaveFocus(same) ? same : byId("text")).focus();
}
