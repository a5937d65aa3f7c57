// Data of a report's page: present/interactive.py writes them in front of plots.js and timeline.js.
declare const P: any;
declare const B: any;
declare const C: string;
declare const O: string;
declare const D: any;
declare const VIEW: string;
