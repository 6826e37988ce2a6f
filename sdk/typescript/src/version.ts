/** Of the package. */
export const version = "1.2.0";
