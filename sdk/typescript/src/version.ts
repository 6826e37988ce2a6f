/** Of the package. */
export const version = "1.1.0";
