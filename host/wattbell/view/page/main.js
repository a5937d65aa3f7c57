/** `wattbell view`: puts the page together. */

import { $, make } from "./dom.js";
import { open } from "./page.js";

open().then((page) => page.start()).catch((error) => {
  document.body.dataset.busy = "0";
  $("notices").append(make("p", error.message, { class: "notice", role: "alert" }));
});
